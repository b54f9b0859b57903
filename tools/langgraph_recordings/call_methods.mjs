// Calls of a script with LangGraph's JavaScript SDK. See call_methods.py for the arguments.
import { readFileSync } from "node:fs";
import { Client } from "@langchain/langgraph-sdk";

const [apiUrl, script] = process.argv.slice(2);
const client = new Client({ apiUrl, apiKey: null, callerOptions: { maxRetries: 0 } });
const saved = {};

const toCamel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());

function fillIn(value) {
  if (typeof value === "string" && value.startsWith("$")) {
    const [name, ...path] = value.slice(1).split(".");
    return path.reduce((found, part) => found[part], saved[name]);
  }
  if (Array.isArray(value)) return value.map(fillIn);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, fillIn(each)]));
}

for (const [number, call] of JSON.parse(readFileSync(script, "utf-8")).entries()) {
  const [area, name] = call.call.split(".").map(toCamel);
  if (client[area]?.[name] === undefined) continue;
  await fetch(`${apiUrl}/call/${number}`, { method: "POST" });
  const own = { ...call, ...call.js };
  try {
    const values = fillIn(own.args ?? []);
    if (own.options) {
      const options = Object.entries(fillIn(own.options));
      values.push(Object.fromEntries(options.map(([name, each]) => [toCamel(name), each])));
    }
    let result = client[area][name](...values);
    if (Symbol.asyncIterator in result) {
      const parts = [];
      for await (const part of result) parts.push(part);
      result = parts;
    }
    saved[call.save] = await result;
  } catch (error) {
    console.log(number, call.call, String(error).slice(0, 150));
  }
}
