// Reads the members of a JSON object one by one, in their order and with duplicates, which JSON.parse loses.
// O(length).

import { decodeUtf8 } from './decode-utf8.ts';

export interface JsonMember {
  readonly key: string;
  /** The text of the value. */
  readonly json: Buffer;
}

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;

/** `text` must be a valid JSON object: call this after JSON.parse. */
export function jsonMembers(text: Buffer): readonly JsonMember[] {
  const members: JsonMember[] = [];
  let depth = 0;
  let key: string | undefined;
  let start = 0;
  const end = (at: number): void => {
    if (key !== undefined) members.push({ key, json: text.subarray(start, at) });
    key = undefined;
  };
  for (let at = 0; at < text.length; at += 1) {
    switch (text[at]) {
      case quote: {
        const first = at;
        for (at += 1; at < text.length && text[at] !== quote; at += 1)
          if (text[at] === backslash) at += 1;
        if (depth === 1 && key === undefined)
          key = JSON.parse(decodeUtf8(text.subarray(first, at + 1))) as string;
        break;
      }
      case colon:
        if (depth === 1) start = at + 1;
        break;
      case comma:
        if (depth === 1) end(at);
        break;
      case 0x7b: // {
      case 0x5b: // [
        depth += 1;
        break;
      case 0x7d: // }
      case 0x5d: // ]
        depth -= 1;
        if (depth === 0) end(at);
        break;
      default:
    }
  }
  return members;
}
