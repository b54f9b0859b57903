"""HTTP API compatible with LangGraph's server, for its public clients.

    INSTALLED_APPS = [..., "hitl_django", "hitl_django.contrib.langgraph_api"]
    path("agent/", include("hitl_django.contrib.langgraph_api.urls"))

The API serves every registered graph, including LangGraph's, without importing langgraph.

    urls.py             URL patterns
    conf.py             settings
    resource.py         base class of the views
    authentication.py   ``x-api-key``
    bodies.py           request bodies and queries
    stored_assistants.py    assistants: find, create, change, versions
    run_config.py       config and context of runs and assistants
    models.py, errors.py    rows of assistants; errors of assistants
    assistants.py, threads.py, thread_states.py, runs.py, store.py, system.py    views
    run_requests.py     requests for a run: start, resume, fork, retry
    run_batches.py      several runs in one request
    run_streams.py      events of a run in the format of LangGraph's server
    crons.py            crons: the schedules of ``hitl_django.contrib.schedules``
    documents.py        graphs, threads, states and runs in the clients' format
    not_supported.py    unsupported features, which return 501
"""
