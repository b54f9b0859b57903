"""Intended differences from LangGraph, each with its reason.

``test_differences`` demonstrates every row in both engines. All other behaviour is the same.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """One behaviour: the behaviour of LangGraph, the behaviour of this engine, and the reason."""

    name: str
    langgraph: str
    here: str
    why: str


TABLE = (
    Difference(
        "the pause is a BaseException",
        "A node's `except Exception` around interrupt() swallows the question.",
        "GraphInterrupt is a BaseException: the node pauses.",
        "A question that nobody sees is a decision that nobody made.",
    ),
    Difference(
        "a swallowed pause pauses all the same",
        "A bare `except:` around interrupt() lets the node go on without an answer.",
        "The node pauses, with a warning that names it.",
        "Going on would act on nobody's decision.",
    ),
    Difference(
        "a change in place is stored when the run leaves",
        "An item of a list that a node changed, and didn't write, is stored with the next write.",
        "It is stored when the run pauses or ends; what the list was given is stored at once.",
        "So a step of a long list costs what it adds, and not the list.",
    ),
    Difference(
        "a thread has one run at a time",
        "Two calls of one thread at once both run its nodes, and both answers take effect.",
        "The second is a LeaseTakenError before it runs anything.",
        "What a double click decides twice would be done twice.",
    ),
    Difference(
        "a map names open questions only",
        "Unknown ids in a resume map are ignored; the call returns as if it had worked.",
        "UnknownInterruptError (not_pending), raised before anything is written.",
        "An answer that reaches nobody has to be noticed by whoever gave it.",
    ),
    Difference(
        "an empty map is an error",
        "Command(resume={}) re-runs the tasks and asks again.",
        "UnknownInterruptError (empty_map).",
        "It answers nothing and can only be a mistake.",
    ),
    Difference(
        "a value needs one open question",
        "Several open questions: RuntimeError.",
        "UnknownInterruptError (ambiguous), which is a RuntimeError and names the open ids.",
        "Whoever gets the error can repeat the call with the right id.",
    ),
    Difference(
        "nothing pending is an error",
        "A resume on a finished thread is stored, and answers the next run's first question.",
        "NothingPendingError; nothing is written.",
        "A late double click must not decide a question that was asked after it.",
    ),
    Difference(
        "an empty thread can't be resumed",
        "A resume on a thread that never ran starts the graph with the Command as input.",
        "ThreadNotFound.",
        "A mistyped thread id would start a run nobody asked for.",
    ),
    Difference(
        "an empty Command is an error",
        "Command() and Command(resume=None) end in an UnboundLocalError.",
        "EmptyInputError that says how None is given as an answer.",
        "An error has to say what was wrong.",
    ),
    Difference(
        "an answer is used once",
        "A consumed answer is given again: go on with None at the second question, and it gets "
        "the first one's answer.",
        "Answers stand under task and position; the second question stays open.",
        "An answer belongs to the question it was given to.",
    ),
    Difference(
        "a breakpoint's value answers nothing",
        "The value that continues a static breakpoint is taken as the answer to the node's own "
        "first question.",
        "The value is dropped and the question is asked.",
        "Nobody had seen the question.",
    ),
    Difference(
        "a corrected answer replaces the first",
        "After an answer that made the node fail, another answer is ignored: the first is used.",
        "The later answer replaces the first while the task is unfinished.",
        "A wrong answer must not brick the thread.",
    ),
    Difference(
        "no questions without a saver",
        "interrupt() in a graph without a checkpointer pauses a run that can never go on.",
        "NoSaverError, unless the config says allow_unsaved.",
        "The pause would lose the run.",
    ),
    Difference(
        "payloads are plain JSON",
        "What the serialiser takes may be asked, and what it doesn't take fails after the node.",
        "UnserializableError inside interrupt(), with the path to the value.",
        "A reviewer's screen in another process has to be able to show it.",
    ),
    Difference(
        "new input waits for open questions",
        "New input on a paused thread drops the questions silently.",
        "PendingInterruptsError, unless the config says discard_pending.",
        "A question in somebody's queue mustn't vanish.",
    ),
    Difference(
        "an unknown goto is an error",
        "A jump to a node that isn't there is logged and dropped.",
        "ValueError from a node, InvalidUpdateError for a caller's Command; both name the nodes.",
        "The work that should have followed would be lost.",
    ),
    Difference(
        "an unknown update key is an error",
        "A key of a caller's Command(update=...) that isn't in the state is logged and dropped.",
        "InvalidUpdateError that names the keys.",
        "What the caller wanted changed would stay as it is.",
    ),
    Difference(
        "an empty list turns breakpoints off",
        "interrupt_before=[] of a call can't disable the compiled breakpoints.",
        "None inherits, [] means none.",
        "There has to be a way to say none.",
    ),
    Difference(
        "questions come in task order",
        "The questions of a step come in the order in which their tasks paused.",
        "They come in task-path order.",
        "The same run shows the same list.",
    ),
    Difference(
        "a failed branch fails its node",
        "A conditional edge that raises leaves its node's writes stored: the node counts as "
        "finished, and going on ends the run without what should have followed.",
        "The node failed; it runs again.",
        "The run would end early and look finished.",
    ),
    Difference(
        "a paused node has written nothing",
        "A conditional edge that asks shows its node's writes in the values of the pause, though "
        "the node runs again.",
        "The values are those that the node started from.",
        "What runs again hasn't happened yet.",
    ),
    Difference(
        "a jump is on record",
        "A caller's Command(goto=...) leaves no trace in the history: next is empty there.",
        "The record shows the nodes that the jump started, and their results.",
        "A question asked there has to be found from storage.",
    ),
    Difference(
        "a failed task streams no update",
        "A task that fails after using an answer streams {node: None} as its update.",
        "It streams its error under tasks, and no update.",
        "It updated nothing.",
    ),
    Difference(
        "a broken step can be looked at",
        "After two nodes wrote one plain key in a step, get_state raises too.",
        "get_state shows the state before the step.",
        "A person has to be able to see what went wrong.",
    ),
    Difference(
        "options of a call are checked",
        "An unknown stream mode or durability is ignored: the stream is empty.",
        "ValueError with the known values; the graph doesn't start.",
        "A misspelled option would remain unnoticed.",
    ),
    Difference(
        "messages carry no links",
        "Some errors end in a link to LangGraph's documentation.",
        "They end with the sentence.",
        "The documentation there isn't about this package.",
    ),
    Difference(
        "records are of their own step",
        "Stored in the background (the default), a join's record can show a later state.",
        "Each step is stored before the next begins.",
        "History has to be true.",
    ),
    Difference(
        "graph errors list all faults",
        "compile() raises for the first fault.",
        "GraphDefinitionError, a ValueError, names every fault.",
        "One look at the message is enough to repair the graph.",
    ),
    Difference(
        "a node that is due has to be there",
        "A thread that is resumed with a graph that has lost the node it stopped at ends at once, "
        "as if it had been answered.",
        "GraphChangedError that names the node; nothing is stored.",
        "The question, its answer and the work behind it would be lost.",
    ),
    Difference(
        "a packet to nowhere is an error",
        "A Send to a node that isn't there is logged and dropped.",
        "ValueError that names the node and the nodes there are.",
        "The work that was sent would be lost.",
    ),
    Difference(
        "an update waits for open questions",
        "update_state on a paused thread drops the other tasks' questions silently.",
        "PendingInterruptsError, unless the config says discard_pending.",
        "A question in somebody's queue mustn't vanish.",
    ),
    Difference(
        "an update loses no write",
        "update_state starts from the checkpoint alone: what finished tasks of a broken step had "
        "written, or a caller's Command, is gone.",
        "Both are applied before the update. Who addresses a checkpoint gets it without what its "
        "tasks wrote.",
        "What was done and stored mustn't vanish because somebody mends what failed beside it.",
    ),
    Difference(
        "a replayed beginning is a beginning",
        "An update without as_node at the record that a replay from the input makes is ambiguous.",
        "It is made in the name of START, as at the first record.",
        "At both, no node has run yet.",
    ),
    Difference(
        "a root has no graphs above it",
        "After a replay of a subgraph's checkpoint, the metadata of the root's own checkpoints "
        "name the subgraph and the root as their parents.",
        "A root's checkpoint has no parents.",
        "Whoever follows them upwards has to come to an end.",
    ),
    Difference(
        "what others were answered is done",
        "Who answers one of several questions at a checkpoint that the thread has moved past has "
        "all tasks run again, each with the answer it had: the one that is given now is ignored.",
        "The task that was asked runs with its new answer; the others keep their results.",
        "What they did with their answers is done.",
    ),
    Difference(
        "a retry keeps what tasks returned",
        "When a workflow or a node is tried again, the @task functions it calls run again.",
        "What they returned is kept; only what failed runs again.",
        "A step that lasts should last through a retry as it does through a pause.",
    ),
    Difference(
        "tasks side by side ask at once",
        "Of several tasks that ask, the first one's question is shown; the others stay hidden, "
        "and an answer by value is refused because of them.",
        "All their questions are shown, in the order of the calls.",
        "Who is to answer has to see what is asked.",
    ),
    Difference(
        "an answer is used before a run drains",
        "A call with an answer that is to be drained stops at once, and stores the answer for "
        "whichever question comes first.",
        "It takes the step that uses the answer, and stops after that.",
        "An answer stands under its question or nowhere, and mustn't be lost.",
    ),
    Difference(
        "an answer lasts through a retry of the caller",
        "A node of a subgraph that was answered and fails asks again when the node above is tried "
        "again.",
        "It has its answer.",
        "A person isn't asked twice because a server was down.",
    ),
    Difference(
        "a task that nobody waited for may ask",
        "A workflow that returns while a task of its own asks has a result and can't go on.",
        "It pauses, and the question is shown.",
        "The question would be lost, and with it the run.",
    ),
    Difference(
        "a question surfaces once",
        "A question that a task of a nested workflow asks is listed twice.",
        "It is listed once.",
        "One question is one card.",
    ),
    Difference(
        "async nodes run under a sync caller",
        "invoke() of a graph with an async node is a TypeError.",
        "The node runs on an event loop of its own, on a thread of its own.",
        "A worker that is a plain process can run any graph.",
    ),
    Difference(
        "a timeout holds under a sync caller",
        "invoke() of a graph whose async node has a timeout is a ValueError.",
        "The node's event loop keeps the time: NodeTimeoutError.",
        "A worker that is a plain process can run any graph.",
    ),
    Difference(
        "a sent timeout needs an async node",
        "In an async run, Send(timeout=...) to a sync node leaves the node's thread to itself.",
        "ValueError in the task, as for any timeout of a sync node.",
        "What was given up would go on and do its work after all.",
    ),
    Difference(
        "a handler's question can be seen",
        "What an error handler asks is neither in get_state nor in the history.",
        "It is in both, with a task of the handler's own.",
        "A review queue must not lose a card.",
    ),
    Difference(
        "a handler that has finished stays finished",
        "When a sibling paused, the handler that had finished beside it runs again on resume.",
        "Its stored writes are applied.",
        "A handler that refunds mustn't refund twice.",
    ),
    Difference(
        "a wrong answer is nothing for a handler",
        "An answer that doesn't fit the response schema goes to the node's error handler.",
        "The question stays open for another answer.",
        "The mistake is the reviewer's, not the node's.",
    ),
    Difference(
        "an answer is never cached",
        "The result of a node that somebody answered is used for other threads, with the answer.",
        "It isn't cached.",
        "What a person decided of one case holds for no other.",
    ),
    Difference(
        "error and config are filled in by name",
        "A parameter `error` has to be annotated with NodeError, one named `config` with nothing "
        "but RunnableConfig; else the node is called without it.",
        "They are filled in whatever the annotation says; an odd one on `config` is a warning.",
        "A missing argument says less than a warning.",
    ),
    Difference(
        "where nothing failed there is no error",
        "A node that is no handler gets None for a parameter `error: NodeError`.",
        "ValueError, unless the parameter has a default.",
        "A handler that was added as a node is a mistake in the graph.",
    ),
    Difference(
        "a stored failure is an exception",
        "A handler that takes up a stored failure finds its repr, a str, as the error.",
        "It finds an exception whose text and repr are those of the failure.",
        "A handler that asks a person asks the same question again, and it can raise what it "
        "doesn't want to handle.",
    ),
    Difference(
        "compiling changes no builder",
        "A graph with a default error handler can be compiled once only.",
        "It can be compiled any number of times.",
        "Tests compile one builder with several savers.",
    ),
    Difference(
        "each item is on one page of a ranked search",
        "Items without embeddings fill up each page from the first of them: some come on several "
        "pages, others on none.",
        "They follow the ranked ones, and each is on one page.",
        "What is on no page is lost.",
    ),
    Difference(
        "what is put again is embedded again",
        "An item that is put again is found by what it was: by list members that are gone, and "
        "after `index=False`.",
        "It is found by what it is now.",
        "A search would rank by what the item no longer says.",
    ),
    Difference(
        "a batch may hold a text twice",
        "Two items, or two fields of one, with the same text in one batch: ValueError.",
        "The text is embedded once, for both.",
        "The items would be lost.",
    ),
    Difference(
        "the whole item may be named",
        '`put(..., index=["$"])` embeds nothing.',
        "It embeds the whole item, as `fields` of the store do.",
        "The item would never be ranked, and nobody would know.",
    ),
    Difference(
        "a filter meets any value",
        "An item whose field is missing, or is no number, makes `$gt` and the others of its kind "
        "an error of the whole search.",
        "It isn't found; texts are compared with texts.",
        "One item mustn't hide all others.",
    ),
    Difference(
        "a namespace holds something",
        "A namespace is listed once it was asked for, and after its last item was removed.",
        "Namespaces that hold items are listed.",
        "A listing says where something is.",
    ),
    Difference(
        "an item is created once",
        "`created_at` is when the item was last put.",
        "`created_at` is when it was first put, `updated_at` when it was last.",
        "It is what the names say, and what LangGraph's stores in databases do.",
    ),
    Difference(
        "a refused request isn't tried again",
        "By default, an error of the user's own with a 4xx response is tried again.",
        "Of errors with a response only 5xx are.",
        "The server would refuse the same request again.",
    ),
    Difference(
        "batch() within a node goes one after the other",
        "The inputs run side by side on threads.",
        "They run on the node's own thread; abatch() runs them side by side.",
        "What is stored below a node is stored on the thread that has the connections.",
    ),
    Difference(
        "a value that would come back as less is refused",
        "A class that only a function sees comes back as a dict, and a subclass of str without its "
        "attributes.",
        "UnserializableError, as the node's failure, with the line that registers the class.",
        "What a thread loads is what it saved, or somebody is told.",
    ),
    Difference(
        "a written message is stored as one",
        "What a node or the input writes to a list of messages, a text or a pair say, is streamed "
        "and recorded as it was written, and has its id only where the list is made.",
        "It is streamed and recorded as a dict, and a message has its id there already.",
        "Applied twice, for a branch to see and then for good, it would become two messages.",
    ),
    Difference(
        "functions of a dict run in order",
        "A node that is a dict of functions runs its functions in parallel.",
        "They run one after the other, in the order of the dict.",
        "The order of the interrupts must not depend on the duration of the functions.",
    ),
    Difference(
        "ids of raised interrupts are like any others",
        "The id of a NodeInterrupt without an id is `placeholder-id` for every task.",
        "The id is unique, like that of interrupt().",
        "A response has to reach a single task.",
    ),
    Difference(
        "warnings have no kinds of their own",
        "Deprecated names warn with LangGraph's own classes, by version.",
        "They warn with Python's DeprecationWarning, and names that are kept here don't warn.",
        "LangGraph's versions say nothing about this package.",
    ),
    Difference(
        "metadata omits LangGraph's integration",
        "Metadata of messages and traces contains `ls_integration`, the name of LangGraph's "
        "integration with LangSmith.",
        "The metadata omits this key.",
        "This package is another integration.",
    ),
)
