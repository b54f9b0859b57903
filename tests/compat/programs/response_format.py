"""The prebuilt agent with an instance of a class as its response."""

import asyncio
import warnings

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent
from pydantic import BaseModel

warnings.simplefilter("ignore")  # the agent has moved to another package


class Weather(BaseModel):
    """The weather in a city."""

    city: str
    degrees: int


@tool
def look(city: str) -> str:
    """Look at the weather."""
    return f"{len(city)} degrees in {city}"


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **kwargs):
        names = [getattr(one, "name", None) or one.__name__ for one in tools]
        print("bound:", *names)
        return self


def script(city):
    def call(name, **args):
        return AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"{name}-{city}"}])

    return [
        call("look", city=city),
        AIMessage(f"It is warm in {city}."),
        call("Weather", city=city, degrees=len(city)),
    ]


model = Model(messages=iter([*script("Rome"), *script("Oslo")]))
agent = create_react_agent(
    model,
    [look],
    prompt="You look at the weather.",
    response_format=Weather,
    checkpointer=InMemorySaver(),
)
config = {"configurable": {"thread_id": "t"}}
result = agent.invoke({"messages": [("user", "Rome?")]}, config)
print(result["structured_response"])
print([message.type for message in result["messages"]])


async def main():
    async for chunk in agent.astream({"messages": [("user", "Oslo?")]}, config):
        print(*chunk)
    state = await agent.aget_state(config)
    print(state.values["structured_response"].degrees, len(state.values["messages"]))


asyncio.run(main())
