// Lua scripts for wrk that send TokenReviews. Each request is prepared as bytes, so that the load
// generator costs the same on both sides and as little as possible.

import { reviewOf, reviewsPath } from '../test/interop/review-cluster.ts';
import type { TokenFile } from './review-tokens.ts';
import { isSmall } from './size.ts';

interface Caller {
  /** The bearer token of the one who asks. */
  readonly caller: string;
  readonly tokens: TokenFile;
}

/**
 * Each token once, from `first` on. The host belongs to the number of the signer. A run that needs more
 * than `count` tokens fails, but a small one begins again.
 */
export function distinctTokens(
  load: Caller & {
    readonly hosts: readonly string[];
    readonly first?: number;
    readonly count?: number;
  },
): string {
  const { caller, hosts, tokens, first = 0, count = tokens.count } = load;
  const { tokenBytes, recordBytes, path } = tokens;
  const atEnd = isSmall
    ? 'file:seek("set", 0); record = file:read(bytes)'
    : 'error("this run needs more tokens than were signed")';
  return `
local heads = { ${hosts.map((host) => luaText(headOf(host, caller, tokenBytes))).join(', ')} }
local tail = ${luaText(bodyEnd)}
local file = assert(io.open(${luaText(path)}, "rb"))
local bytes = ${recordBytes}
file:seek("set", ${first} * bytes)
local left = ${count}
function request()
  left = left - 1
  local record = left >= 0 and file:read(bytes)
  if not record then ${atEnd} end
  return heads[tonumber(record:sub(${tokenBytes + 2}, ${recordBytes - 1})) + 1]
    .. record:sub(1, ${tokenBytes}) .. tail
end
`;
}

/** So many tokens again and again, each at every host. */
export function repeatedTokens(
  load: Caller & { readonly hosts: readonly string[]; readonly count: number },
): string {
  const { caller, hosts, tokens, count } = load;
  const { tokenBytes, recordBytes, path } = tokens;
  return `
local heads = { ${hosts.map((host) => luaText(headOf(host, caller, tokenBytes))).join(', ')} }
local file = assert(io.open(${luaText(path)}, "rb"))
local requests = {}
for index = 1, ${count} do
  local token = file:read(${recordBytes}):sub(1, ${tokenBytes})
  for _, head in ipairs(heads) do table.insert(requests, head .. token .. ${luaText(bodyEnd)}) end
end
local turn = 0
function request()
  turn = turn % #requests + 1
  return requests[turn]
end
`;
}

/** So many tokens again and again at one host, each time for an audience that was never asked for, beside its own. */
export function newAudiences(
  load: Caller & {
    readonly host: string;
    readonly count: number;
    /** Of all tokens. */
    readonly audience: string;
    /** No two runs have the same one. */
    readonly run: number;
  },
): string {
  const { caller, host, tokens, count, audience, run } = load;
  const { tokenBytes, recordBytes, path } = tokens;
  const named = (turn: string): string => `run-${String(run).padStart(3, '0')}-${turn}`;
  const [start = '', middle = '', end = ''] = reviewOf('@', [audience, named('@')]).split('@');
  const length = start.length + tokenBytes + middle.length + '000000000'.length + end.length;
  return `
local head = ${luaText(headOf(host, caller, length - bodyStart.length - bodyEnd.length, start))}
local file = assert(io.open(${luaText(path)}, "rb"))
local tokens = {}
for index = 1, ${count} do tokens[index] = file:read(${recordBytes}):sub(1, ${tokenBytes}) end
local turn = 0
function request()
  turn = turn + 1
  return head .. tokens[turn % #tokens + 1] .. ${luaText(middle)}
    .. string.format("%09d", turn) .. ${luaText(end)}
end
`;
}

const [bodyStart = '', bodyEnd = ''] = reviewOf('@').split('@');

function headOf(host: string, caller: string, tokenBytes: number, start = bodyStart): string {
  return [
    `POST ${reviewsPath} HTTP/1.1`,
    `Host: ${host}`,
    `Authorization: Bearer ${caller}`,
    'Accept: application/json',
    'Content-Type: application/json',
    `Content-Length: ${bodyStart.length + tokenBytes + bodyEnd.length}`,
    '',
    start,
  ].join('\r\n');
}

/** JSON escapes what these texts contain in the same way as Lua. */
const luaText = (text: string): string => JSON.stringify(text);
