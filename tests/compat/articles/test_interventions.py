"""Guide to human intervention: approve, edit, review a tool call, validate, resume, pitfalls."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal, TypedDict

import pytest
from asgiref.sync import async_to_sync

from hitl_django import END, START, Command, StateGraph, interrupt
from hitl_django.engine.errors import InterruptChangedError
from hitl_django.engine.state.messages import add_messages
from hitl_django.engine.types import Interrupt


def values(pending_interrupts: Any) -> list[Any]:
    return [payload.value for payload in pending_interrupts]


def new_thread() -> dict[str, Any]:
    return {"configurable": {"thread_id": uuid.uuid4()}}


class Text(TypedDict):
    some_text: str


def revise(state: Text) -> Any:
    value = interrupt({"text_to_revise": state["some_text"]})
    return {"some_text": value}


@pytest.mark.parametrize("thread_id", ["some_id", uuid.uuid4()])
def test_state_text_is_replaced_by_the_response_for_thread_id_of_type_str_or_uuid(
    checkpointer: Any, thread_id: Any
) -> None:
    """Follow "interrupt", short and extended.

    The article's Interrupt has ``resumable`` and ``ns``; ours has ``value`` and ``id``, as
    LangGraph has since 1.0.
    """
    graph_builder = StateGraph(Text)
    graph_builder.add_node("human_node", revise)
    graph_builder.add_edge(START, "human_node")
    graph = graph_builder.compile(checkpointer=checkpointer)
    config = {"configurable": {"thread_id": thread_id}}

    result = graph.invoke({"some_text": "original text"}, config=config)
    (asked,) = result["__interrupt__"]
    assert isinstance(asked, Interrupt)
    assert asked.value == {"text_to_revise": "original text"}
    assert values(graph.get_state(config).interrupts) == [{"text_to_revise": "original text"}]

    assert graph.invoke(Command(resume="Edited text"), config=config) == {
        "some_text": "Edited text"
    }


class Decision(TypedDict):
    llm_output: str
    decision: str


@pytest.mark.parametrize(
    ("answer", "decision", "line"),
    [
        ("approve", "approved", "✅ Approved path taken."),
        ("reject", "rejected", "❌ Rejected path taken."),
    ],
)
def test_approve_or_reject_response_selects_the_next_node_by_command(
    checkpointer: Any, printed: Any, answer: str, decision: str, line: str
) -> None:
    """Follow "Approve or reject", extended."""

    def generate_llm_output(state: Decision) -> Decision:
        return {"llm_output": "This is the generated output."}  # type: ignore[typeddict-item]

    def human_approval(
        state: Decision,
    ) -> Command[Literal["approved_path", "rejected_path"]]:
        decision = interrupt(
            {
                "question": "Do you approve the following output?",
                "llm_output": state["llm_output"],
            }
        )
        if decision == "approve":
            return Command(goto="approved_path", update={"decision": "approved"})
        else:  # noqa: RET505 - as in the article
            return Command(goto="rejected_path", update={"decision": "rejected"})

    def approved_node(state: Decision) -> Decision:
        print("✅ Approved path taken.")
        return state

    def rejected_node(state: Decision) -> Decision:
        print("❌ Rejected path taken.")
        return state

    builder = StateGraph(Decision)
    builder.add_node("generate_llm_output", generate_llm_output)
    builder.add_node("human_approval", human_approval)
    builder.add_node("approved_path", approved_node)
    builder.add_node("rejected_path", rejected_node)
    builder.set_entry_point("generate_llm_output")
    builder.add_edge("generate_llm_output", "human_approval")
    builder.add_edge("approved_path", END)
    builder.add_edge("rejected_path", END)
    graph = builder.compile(checkpointer=checkpointer)

    config = new_thread()
    result = graph.invoke({}, config=config)
    assert values(result["__interrupt__"]) == [
        {
            "question": "Do you approve the following output?",
            "llm_output": "This is the generated output.",
        }
    ]
    final_result = graph.invoke(Command(resume=answer), config=config)
    assert final_result == {"llm_output": "This is the generated output.", "decision": decision}
    assert printed.lines() == [line]


@pytest.mark.parametrize(("answer", "node"), [(True, "some_node"), (False, "another_node")])
def test_boolean_response_selects_the_next_node(checkpointer: Any, answer: bool, node: str) -> None:
    """Follow "Approve or reject", short: False is an answer like any other."""
    visited = []

    def human_approval(state: Decision) -> Command[Literal["some_node", "another_node"]]:
        is_approved = interrupt({"question": "Is this correct?", "llm_output": state["llm_output"]})
        if is_approved:
            return Command(goto="some_node")
        else:  # noqa: RET505 - as in the article
            return Command(goto="another_node")

    graph_builder = StateGraph(Decision)
    graph_builder.add_node("human_approval", human_approval)
    graph_builder.add_node("some_node", lambda state: visited.append("some_node"))
    graph_builder.add_node("another_node", lambda state: visited.append("another_node"))
    graph_builder.add_edge(START, "human_approval")
    graph = graph_builder.compile(checkpointer=checkpointer)

    thread_config = {"configurable": {"thread_id": "some_id"}}
    graph.invoke({"llm_output": "x"}, config=thread_config)
    graph.invoke(Command(resume=answer), config=thread_config)
    assert visited == [node]


class Summary(TypedDict):
    summary: str


def test_summary_in_the_state_is_replaced_by_the_edited_summary(
    checkpointer: Any, printed: Any
) -> None:
    """Follow "Review and edit state", short and extended."""

    def generate_summary(state: Summary) -> Summary:
        return {"summary": "The cat sat on the mat and looked at the stars."}

    def human_review_edit(state: Summary) -> Summary:
        result = interrupt(
            {
                "task": "Please review and edit the generated summary if necessary.",
                "generated_summary": state["summary"],
            }
        )
        return {"summary": result["edited_summary"]}

    def downstream_use(state: Summary) -> Summary:
        print(f"✅ Using edited summary: {state['summary']}")
        return state

    builder = StateGraph(Summary)
    builder.add_node("generate_summary", generate_summary)
    builder.add_node("human_review_edit", human_review_edit)
    builder.add_node("downstream_use", downstream_use)
    builder.set_entry_point("generate_summary")
    builder.add_edge("generate_summary", "human_review_edit")
    builder.add_edge("human_review_edit", "downstream_use")
    builder.add_edge("downstream_use", END)
    graph = builder.compile(checkpointer=checkpointer)

    config = new_thread()
    result = graph.invoke({}, config=config)
    assert values(result["__interrupt__"]) == [
        {
            "task": "Please review and edit the generated summary if necessary.",
            "generated_summary": "The cat sat on the mat and looked at the stars.",
        }
    ]
    edited_summary = "The cat lay on the rug, gazing peacefully at the night sky."
    resumed_result = graph.invoke(Command(resume={"edited_summary": edited_summary}), config=config)
    assert resumed_result == {"summary": edited_summary}
    assert printed.lines() == [f"✅ Using edited summary: {edited_summary}"]


class Chat(TypedDict):
    messages: Annotated[list[Any], add_messages]


TOOL_CALL = {"name": "weather_search", "args": {"city": "sf!"}, "id": "call-1"}


@pytest.mark.parametrize(
    ("answer", "city", "said"),
    [
        (["continue", None], "sf!", None),
        (["update", {"city": "San Francisco"}], "San Francisco", None),
        (["feedback", "Use <city, state>."], "San Francisco, CA", "Use <city, state>."),
    ],
)
def test_tool_call_review_continues_the_call_updates_its_arguments_or_returns_feedback(
    checkpointer: Any, config: Any, answer: Any, city: str, said: str | None
) -> None:
    """Follow "Review tool calls", with the parts that the article leaves to the reader.

    The answer is a pair; what was given as a tuple would be read as a list after a reload.
    """

    def call_llm(state: Chat) -> Any:
        last = state["messages"][-1]
        args = {"city": "San Francisco, CA"} if last.type == "tool" else TOOL_CALL["args"]
        call = {**TOOL_CALL, "args": args}
        return {"messages": [{"role": "assistant", "content": "", "tool_calls": [call]}]}

    def human_review_node(state: Chat) -> Command[Literal["call_llm", "run_tool"]]:
        last_message = state["messages"][-1]
        tool_call = last_message.tool_calls[-1]
        human_review = interrupt({"question": "Is this correct?", "tool_call": tool_call})
        review_action, review_data = human_review

        if review_action == "continue":
            return Command(goto="run_tool")
        elif review_action == "update":  # noqa: RET505 - as in the article
            # The same id: it replaces the message.
            updated_message = {
                "role": "ai",
                "content": last_message.content,
                "tool_calls": [{**tool_call, "args": review_data}],
                "id": last_message.id,
            }
            return Command(goto="run_tool", update={"messages": [updated_message]})
        elif review_action == "feedback":
            feedback_msg = {
                "role": "tool",
                "content": review_data,
                "tool_call_id": tool_call["id"],
            }
            return Command(goto="call_llm", update={"messages": [feedback_msg]})
        raise AssertionError(review_action)

    def run_tool(state: Chat) -> Any:
        call = state["messages"][-1].tool_calls[-1]
        found = f"Sunny in {call['args']['city']}!"
        return {"messages": [{"role": "tool", "content": found, "tool_call_id": call["id"]}]}

    builder = StateGraph(Chat)
    builder.add_node(call_llm)
    builder.add_node(human_review_node)
    builder.add_node(run_tool)
    builder.add_edge(START, "call_llm")
    builder.add_edge("call_llm", "human_review_node")
    builder.add_edge("run_tool", END)
    graph = builder.compile(checkpointer=checkpointer)

    asked = graph.invoke({"messages": [{"role": "user", "content": "Weather in sf?"}]}, config)
    assert values(asked["__interrupt__"]) == [
        {"question": "Is this correct?", "tool_call": {**TOOL_CALL, "type": "tool_call"}}
    ]
    result = graph.invoke(Command(resume=answer), config)
    if said is not None:
        assert result["messages"][2].content == said
        assert values(result["__interrupt__"])[0]["tool_call"]["args"] == {"city": city}
        result = graph.invoke(Command(resume=["continue", None]), config)
    assert "__interrupt__" not in result
    assert result["messages"][-1].content == f"Sunny in {city}!"
    assert sum(m.type == "ai" for m in result["messages"]) == (2 if said else 1)


class Person(TypedDict):
    age: int


def test_age_interrupt_repeats_until_the_response_is_a_valid_age(
    checkpointer: Any, config: Any, printed: Any
) -> None:
    """Follow "Validate human input", short."""

    def human_node(state: Person) -> Any:
        payload = "What is your age?"
        while True:
            answer = interrupt(payload)
            if not isinstance(answer, int) or answer < 0:
                payload = f"'{answer} is not a valid age. What is your age?"
                answer = None
                continue
            else:  # noqa: RET507 - as in the article
                break
        print(f"The human in the loop is {answer} years old.")
        return {"age": answer}

    builder = StateGraph(Person)
    builder.add_node(human_node)
    builder.add_edge(START, "human_node")
    graph = builder.compile(checkpointer=checkpointer)

    prompts = [graph.invoke({}, config)["__interrupt__"]]
    prompts += [graph.invoke(Command(resume=a), config)["__interrupt__"] for a in ("forty", -1)]
    assert [values(prompt) for prompt in prompts] == [
        ["What is your age?"],
        ["'forty is not a valid age. What is your age?"],
        ["'-1 is not a valid age. What is your age?"],
    ]
    assert graph.invoke(Command(resume=40), config) == {"age": 40}
    assert printed.lines() == ["The human in the loop is 40 years old."]


def test_age_interrupt_after_invalid_response_contains_the_invalid_value(
    checkpointer: Any, printed: Any
) -> None:
    """Follow "Validate human input", extended."""

    def get_valid_age(state: Person) -> Person:
        prompt = "Please enter your age (must be a non-negative integer)."
        while True:
            user_input = interrupt(prompt)
            try:
                age = int(user_input)
                if age < 0:
                    raise ValueError("Age must be non-negative.")
                break
            except (ValueError, TypeError):
                prompt = (
                    f"'{user_input}' is not valid. Please enter a non-negative integer for age."
                )
        return {"age": age}

    def report_age(state: Person) -> Person:
        print(f"✅ Human is {state['age']} years old.")
        return state

    builder = StateGraph(Person)
    builder.add_node("get_valid_age", get_valid_age)
    builder.add_node("report_age", report_age)
    builder.set_entry_point("get_valid_age")
    builder.add_edge("get_valid_age", "report_age")
    builder.add_edge("report_age", END)
    graph = builder.compile(checkpointer=checkpointer)

    config = new_thread()
    result = graph.invoke({}, config=config)
    assert values(result["__interrupt__"]) == [
        "Please enter your age (must be a non-negative integer)."
    ]
    for wrong in ("not a number", "-10"):
        result = graph.invoke(Command(resume=wrong), config=config)
        assert values(result["__interrupt__"]) == [
            f"'{wrong}' is not valid. Please enter a non-negative integer for age."
        ]
    final_result = graph.invoke(Command(resume="25"), config=config)
    assert final_result == {"age": 25}
    assert printed.lines() == ["✅ Human is 25 years old."]


def test_resume_value_that_is_a_dict_reaches_the_node_unchanged(
    checkpointer: Any, config: Any
) -> None:
    """Follow "Resume with the Command primitive"."""

    def ask(state: Person) -> Any:
        return {"age": int(interrupt("age?")["age"])}

    builder = StateGraph(Person)
    builder.add_node(ask)
    builder.add_edge(START, "ask")
    graph = builder.compile(checkpointer=checkpointer)
    graph.invoke({}, config)
    assert graph.invoke(Command(resume={"age": "25"}), config) == {"age": 25}


def test_resumed_node_runs_again_from_its_first_line(
    checkpointer: Any, config: Any, printed: Any
) -> None:
    """Follow "How does resuming work?".

    The article calls ``interrupt()`` without a value; a question needs one, here as in LangGraph.
    """
    counter = 0

    def node(state: Person) -> None:
        nonlocal counter
        counter += 1
        print(f"> Entered the node: {counter} # of times")
        interrupt("Go on?")
        print("The value of counter is:", counter)

    builder = StateGraph(Person)
    builder.add_node(node)
    builder.add_edge(START, "node")
    graph = builder.compile(checkpointer=checkpointer)
    graph.invoke({"age": 1}, config)
    assert printed.lines() == ["> Entered the node: 1 # of times"]
    graph.invoke(Command(resume="yes"), config)
    assert printed.lines() == [
        "> Entered the node: 2 # of times",
        "The value of counter is: 2",
    ]


def test_interrupt_without_value_raises_type_error(checkpointer: Any, config: Any) -> None:
    """Follow "How does resuming work?", as it is written: ``interrupt()`` is a TypeError."""
    builder = StateGraph(Person)
    builder.add_node("node", lambda state: interrupt())  # type: ignore[call-arg]
    builder.add_edge(START, "node")
    graph = builder.compile(checkpointer=checkpointer)
    with pytest.raises(TypeError, match="value"):
        graph.invoke({"age": 1}, config)


class Prompts(TypedDict):
    one: str
    two: str


@pytest.mark.filterwarnings("ignore:.*interrupt_id")
def test_resume_map_resumes_two_interrupts_of_a_subgraph(checkpointer: Any, config: Any) -> None:
    """Follow "Resume several interrupts with one call"."""

    def first(state: Prompts) -> Any:
        return {"one": interrupt("name")}

    def second(state: Prompts) -> Any:
        return {"two": interrupt("colour")}

    builder = StateGraph(Prompts)
    builder.add_node(first)
    builder.add_node(second)
    builder.add_edge(START, "first")
    builder.add_edge(START, "second")
    parent_graph = StateGraph(Prompts)
    parent_graph.add_node("child", builder.compile())
    parent_graph.add_edge(START, "child")
    parent = parent_graph.compile(checkpointer=checkpointer)

    parent.invoke({}, config)
    resume_map = {
        i.interrupt_id: f"human input for prompt {i.value}"
        for i in parent.get_state(config).interrupts
    }
    assert len(resume_map) == 2
    assert parent.invoke(Command(resume=resume_map), config=config) == {
        "one": "human input for prompt name",
        "two": "human input for prompt colour",
    }


def test_api_call_in_node_before_interrupt_runs_again_on_resume(
    checkpointer: Any, config: Any
) -> None:
    """Follow "Side effects": once before the question, once more on resuming."""
    calls = []

    def human_node(state: Person) -> None:
        calls.append("api_call")
        interrupt("question")

    builder = StateGraph(Person)
    builder.add_node(human_node)
    builder.add_edge(START, "human_node")
    graph = builder.compile(checkpointer=checkpointer)
    graph.invoke({"age": 1}, config)
    graph.invoke(Command(resume="yes"), config)
    assert calls == ["api_call", "api_call"]


class Counted(TypedDict):
    state_counter: int


def test_resumed_parent_node_runs_again_and_finished_subgraph_nodes_do_not(
    checkpointer: Any, printed: Any
) -> None:
    """Follow "Parent and child graph execution flow", with the lines that the article prints."""
    counter_node_in_subgraph = 0

    def node_in_subgraph(state: Counted) -> None:
        nonlocal counter_node_in_subgraph
        counter_node_in_subgraph += 1
        print(f"Entered `node_in_subgraph` a total of {counter_node_in_subgraph} times")

    counter_human_node = 0

    def human_node(state: Counted) -> None:
        nonlocal counter_human_node
        counter_human_node += 1
        print(f"Entered human_node in sub-graph a total of {counter_human_node} times")
        answer = interrupt("what is your name?")
        print(f"Got an answer of {answer}")

    subgraph_builder = StateGraph(Counted)
    subgraph_builder.add_node("some_node", node_in_subgraph)
    subgraph_builder.add_node("human_node", human_node)
    subgraph_builder.add_edge(START, "some_node")
    subgraph_builder.add_edge("some_node", "human_node")
    # The child has a saver of its own, which nested it doesn't use.
    subgraph = subgraph_builder.compile(checkpointer=type(checkpointer)())

    counter_parent_node = 0

    def parent_node(state: Counted) -> Any:
        nonlocal counter_parent_node
        counter_parent_node += 1
        print(f"Entered `parent_node` a total of {counter_parent_node} times")
        subgraph_state = subgraph.invoke(state)
        return subgraph_state  # noqa: RET504 - as in the article

    builder = StateGraph(Counted)
    builder.add_node("parent_node", parent_node)
    builder.add_edge(START, "parent_node")
    graph = builder.compile(checkpointer=checkpointer)
    config = new_thread()

    (chunk,) = graph.stream({"state_counter": 1}, config)
    assert values(chunk.pop("__interrupt__")) == ["what is your name?"]
    assert chunk == {}
    assert printed.lines() == [
        "Entered `parent_node` a total of 1 times",
        "Entered `node_in_subgraph` a total of 1 times",
        "Entered human_node in sub-graph a total of 1 times",
    ]
    chunks = list(graph.stream(Command(resume="35"), config))
    assert chunks == [{"parent_node": {"state_counter": 1}}]
    assert printed.lines() == [
        "Entered `parent_node` a total of 2 times",
        "Entered human_node in sub-graph a total of 2 times",
        "Got an answer of 35",
    ]


class NameAndAge(TypedDict):
    age: str | None
    name: str | None


def human_node(state: NameAndAge) -> Any:
    if not state.get("name"):  # noqa: SIM108 - as in the article
        name = interrupt("what is your name?")
    else:
        name = "N/A"
    if not state.get("age"):  # noqa: SIM108
        age = interrupt("what is your age?")
    else:
        age = "N/A"
    print(f"Name: {name}. Age: {age}")
    return {"age": age, "name": name}


def changing_graph(checkpointer: Any) -> Any:
    builder = StateGraph(NameAndAge)
    builder.add_node("human_node", human_node)
    builder.add_edge(START, "human_node")
    return builder.compile(checkpointer=checkpointer)


def test_response_reaching_a_different_interrupt_after_state_update_is_logged(
    checkpointer: Any, printed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Follow "Code that introduces non-determinism": the outcome is the article's.

    LangGraph gives the name to the question for the age in silence; here it is logged.
    """
    graph = changing_graph(checkpointer)
    config = new_thread()
    (chunk,) = graph.stream({"age": None, "name": None}, config)
    assert values(chunk["__interrupt__"]) == ["what is your name?"]
    chunks = list(graph.stream(Command(resume="John", update={"name": "foo"}), config))
    assert chunks == [{"human_node": {"age": "John", "name": "N/A"}}]
    assert printed.lines() == ["Name: N/A. Age: John"]
    (record,) = [r for r in caplog.records if r.levelname == "WARNING"]
    assert "human_node" in record.getMessage()
    assert "asked something different after it was answered" in record.getMessage()


def test_response_reaching_a_different_interrupt_raises_error_if_on_interrupt_change_is_error(
    checkpointer: Any, printed: Any
) -> None:
    """Follow "Code that introduces non-determinism", with the engine's stricter setting."""
    graph = changing_graph(checkpointer)
    config = {
        "configurable": {"thread_id": uuid.uuid4(), "on_interrupt_change": "error"},
    }
    graph.invoke({"age": None, "name": None}, config)
    with pytest.raises(InterruptChangedError):
        graph.invoke(Command(resume="John", update={"name": "foo"}), config)
    assert printed.lines() == []


@pytest.mark.parametrize("way", ["ainvoke", "astream"])
def test_ainvoke_and_astream_resume_an_interrupted_thread(
    checkpointer: Any, config: Any, way: str
) -> None:
    """Follow "Resume with the Command primitive": ainvoke and astream resume as well."""
    graph_builder = StateGraph(Text)
    graph_builder.add_node("human_node", revise)
    graph_builder.add_edge(START, "human_node")
    graph = graph_builder.compile(checkpointer=checkpointer)

    async def example() -> Any:
        await graph.ainvoke({"some_text": "original text"}, config)
        if way == "ainvoke":
            return await graph.ainvoke(Command(resume="Edited text"), config)
        return [chunk async for chunk in graph.astream(Command(resume="Edited text"), config)]

    edited = {"some_text": "Edited text"}
    assert async_to_sync(example)() == (edited if way == "ainvoke" else [{"human_node": edited}])
