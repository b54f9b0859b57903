"""The HTTP of LangGraph's server, as far as its public clients use it, over our own services.

    path("agent/", include("hitl_django.contrib.langgraph_api.urls"))

Whatever graph is registered is served, ours and LangGraph's alike: nothing here knows langgraph.

    urls.py             addresses to views
    resource.py         what all views have in common, beside the API's own
    authentication.py   ``x-api-key``
    bodies.py           what requests hold
    assistants.py, threads.py, thread_states.py, runs.py, store.py, system.py    views
    run_requests.py     what a request for a run comes to: start, resume, fork, retry
    run_streams.py      events of a run as LangGraph's server sends them
    documents.py        graphs, threads, states and runs as its clients read them
    not_supported.py      what isn't there, and says so
"""
