"""A workflow as a function: tasks, an interrupt, and the result of the previous run."""

import asyncio

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.types import Command, interrupt

saver = InMemorySaver()


@task
def outline(topic: str) -> list[str]:
    print(f"outlining {topic}")
    return [f"{topic} {part}" for part in ("then", "now")]


@task(name="section")
def write(title: str) -> str:
    return f"<{title}>"


@entrypoint(checkpointer=saver)
def essay(topic: str, *, previous: int | None = None):
    sections = [write(title).result() for title in outline(topic).result()]
    verdict = interrupt({"draft": sections, "earlier": previous})
    count = (previous or 0) + 1
    return entrypoint.final(value={"text": " ".join(sections), "said": verdict}, save=count)


config = {"configurable": {"thread_id": "essay"}}
for topic in ("bees", "ants"):
    for chunk in essay.stream(topic, config, stream_mode="updates"):
        if "__interrupt__" in chunk:
            print("asked", chunk["__interrupt__"][0].value)
        else:
            print(chunk)
    print(essay.invoke(Command(resume="good"), config))
print(essay.get_state(config).values)


@task
async def double(number: int) -> int:
    await asyncio.sleep(0)
    return number * 2


@entrypoint(checkpointer=saver)
async def total(numbers: list[int], previous: int = 0) -> int:
    doubled = await asyncio.gather(*(double(number) for number in numbers))
    return (previous or 0) + sum(doubled)


async def main():
    config = {"configurable": {"thread_id": "total"}}
    print(await total.ainvoke([1, 2, 3], config))
    async for chunk in total.astream([10], config):
        print(chunk)


asyncio.run(main())
