/** What runs on this machine all the same: named, so that nobody takes it for sandboxed. */

import { CONFIG_DIR_NAME, type ExtensionAPI, type ExtensionContext, getAgentDir, type ToolInfo } from "@earendil-works/pi-coding-agent";
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { takenTools } from "./guard.ts";
import { isObject } from "./frames.ts";
import { oneLine } from "./words.ts";

/** Tools of pi's that run nothing and read no file of their own accord. */
const HARMLESS = new Set(["tool_search"]);
const MOST_NAMES = 8;

/** One line for each thing that is outside of the boundary in this session. */
export function outsideLines(pi: ExtensionAPI, ctx: ExtensionContext, marks: ReadonlyMap<string, unknown>): string[] {
  const others = pi.getAllTools().filter((tool) => !marks.has(tool.name) && tool.exposure !== "hidden");
  const isMcp = (tool: ToolInfo) => tool.name.startsWith("mcp__") || tool.sourceInfo.path === "builtin:mcp";
  const lines = mcpLines(mcpServers(pi, ctx), others.filter(isMcp));
  const rest = others.filter((tool) => !isMcp(tool) && !HARMLESS.has(tool.name));
  if (rest.some(isCodemode) && pi.getActiveTools().includes("codemode")) {
    lines.push("codemode: its scripts run inside of pi, without files and network; the tools that they call are sandboxed");
  }
  for (const [source, tools] of bySource(rest.filter((tool) => !isCodemode(tool)))) {
    lines.push(`tools of ${oneLine(source, 120)}, on this machine: ${names(tools.map((tool) => tool.name))}`);
  }
  const taken = takenTools(pi, marks);
  if (taken.length > 0) lines.push(`another extension has taken ${names(taken)}: calls are blocked`);
  return lines;
}

function isCodemode(tool: ToolInfo): boolean {
  return tool.name === "codemode" && tool.sourceInfo.source === "builtin";
}

function bySource(tools: readonly ToolInfo[]): Map<string, ToolInfo[]> {
  const found = new Map<string, ToolInfo[]>();
  for (const tool of tools) found.set(tool.sourceInfo.path, [...(found.get(tool.sourceInfo.path) ?? []), tool]);
  return found;
}

function mcpLines(servers: ReadonlyMap<string, string>, tools: readonly ToolInfo[]): string[] {
  const lines = [...servers].map(([name, place]) => `MCP server ${oneLine(name, 80)}: ${place}`);
  const unnamed = tools.filter((tool) => tool.name.startsWith("mcp__") && ![...servers.keys()].some((name) => isOf(tool, name)));
  if (unnamed.length > 0) lines.push(`MCP, through pi on this machine: ${names(unnamed.map((tool) => tool.name))}`);
  return lines;
}

function isOf(tool: ToolInfo, server: string): boolean {
  return tool.name.startsWith(`mcp__${server.replace(/\W/g, "_")}__`);
}

/** The servers of other extensions and of pi's configuration that are on: pi connects to them in the background, so their tools come late. */
function mcpServers(pi: ExtensionAPI, ctx: ExtensionContext): Map<string, string> {
  const files = [join(getAgentDir(), "mcp.json")];
  if (ctx.isProjectTrusted()) files.push(join(ctx.cwd, CONFIG_DIR_NAME, "mcp.json"));
  const merged = new Map<string, Record<string, unknown>>();
  for (const { name, config } of pi.getMcpServers()) merged.set(name, { ...config });
  for (const [name, server] of files.flatMap(readServers)) merged.set(name, { ...merged.get(name), ...server });
  const isOn = ([, server]: [string, Record<string, unknown>]) => server["enabled"] !== false;
  return new Map([...merged].filter(isOn).map(([name, server]) => [name, whereItRuns(server)]));
}

function readServers(file: string): [string, Record<string, unknown>][] {
  try {
    const whole: unknown = JSON.parse(readFileSync(file, "utf8"));
    const servers = isObject(whole) && isObject(whole["mcpServers"]) ? whole["mcpServers"] : {};
    return Object.entries(servers).filter((entry): entry is [string, Record<string, unknown>] => isObject(entry[1]));
  } catch {
    // None, or none that pi reads either.
    return [];
  }
}

function whereItRuns(server: Record<string, unknown>): string {
  return typeof server["url"] === "string" ? "reached from this machine" : "a program on this machine";
}

function names(all: readonly string[]): string {
  const shown = all.slice(0, MOST_NAMES).map((name) => oneLine(name, 80));
  return all.length > MOST_NAMES ? `${shown.join(", ")} and ${all.length - MOST_NAMES} more` : shown.join(", ");
}
