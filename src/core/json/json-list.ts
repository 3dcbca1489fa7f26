// Finds the items of a list in the text of a JSON object, one by one, so that a caller can bound, parse and handle each
// of them in a turn of its own. One pass over the text. The parser checks the syntax of what is found here.

import { JsonExcessError, MAX_DEPTH, closingQuote } from './strict-json.ts';

export interface JsonListLimits {
  /** Of one item. */
  readonly maxItemBytes: number;
  /** Fields and items of one item. */
  readonly maxItemValues: number;
  /** Of all items. */
  readonly maxItems: number;
  /** Of the text around the items. */
  readonly maxRestBytes: number;
}

/** Where an item is in the text. */
export interface JsonSpan {
  readonly start: number;
  readonly end: number;
  /** Its fields and items. */
  readonly values: number;
}

/** An item, the text around the items, or the number of items exceeds its limit. */
export class JsonItemError extends JsonExcessError {}

const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;

const isSpace = (code: number | undefined): boolean =>
  code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;

export class JsonList {
  readonly #text: Buffer;
  readonly #limits: JsonListLimits;
  #at: number;
  /** Where the items begin, after the bracket; undefined where there is no such list. */
  readonly #start: number | undefined;
  #end: number | undefined;
  #count = 0;

  /** `field` is that of the list in the object. */
  constructor(text: Buffer, field: string, limits: JsonListLimits) {
    this.#text = text;
    this.#limits = limits;
    this.#start = this.#find(Buffer.from(`"${field}"`));
    this.#at = this.#start ?? text.length;
  }

  /** Undefined after the last one. Throws a SyntaxError. O(size of the item). */
  next(): JsonSpan | undefined {
    if (this.#start === undefined || this.#end !== undefined) return undefined;
    const text = this.#text;
    this.#skipSpaces();
    if (this.#count === 0 && text[this.#at] === closeBracket) return this.#close();
    if (this.#count > 0) {
      if (text[this.#at] === closeBracket) return this.#close();
      if (text[this.#at] !== comma) throw new SyntaxError('a list has no comma between its items');
      this.#at += 1;
      this.#skipSpaces();
    }
    if (text[this.#at] !== openBrace) throw new SyntaxError('an item of a list is no object');
    if (this.#count >= this.#limits.maxItems) {
      throw new JsonItemError(`more than ${this.#limits.maxItems} items`);
    }
    this.#count += 1;
    return this.#item();
  }

  /** The object without the items. Call it after the last one. Throws a SyntaxError. */
  rest(): unknown {
    const text = this.#text;
    if (this.#start === undefined) {
      if (text.length > this.#limits.maxRestBytes) throw new SyntaxError('it has no such list');
      return JSON.parse(text.toString('utf8'));
    }
    const end = this.#end ?? text.length;
    this.#checkRest(this.#start + text.length - end);
    const around = [text.subarray(0, this.#start), text.subarray(end)];
    return JSON.parse(Buffer.concat(around).toString('utf8'));
  }

  parse({ start, end }: JsonSpan): unknown {
    return JSON.parse(this.#text.toString('utf8', start, end));
  }

  #item(): JsonSpan {
    const text = this.#text;
    const { maxItemBytes, maxItemValues } = this.#limits;
    const start = this.#at;
    const most = Math.min(text.length, start + maxItemBytes);
    let depth = 0;
    let values = 0;
    let at = start;
    for (; at < most; at += 1) {
      switch (text[at]) {
        case quote:
          at = closingQuote(text, at + 1);
          break;
        case openBrace:
        case openBracket:
          depth += 1;
          values += 1;
          if (depth > MAX_DEPTH)
            throw new SyntaxError(`an item nests deeper than ${MAX_DEPTH} levels`);
          break;
        case closeBrace:
        case closeBracket:
          depth -= 1;
          if (depth === 0) {
            this.#at = at + 1;
            return { start, end: this.#at, values };
          }
          break;
        case comma:
          values += 1;
          if (values > maxItemValues) {
            throw new JsonItemError(`an item with more than ${maxItemValues} fields and items`);
          }
          break;
        default:
      }
    }
    if (at < text.length || text.length - start > maxItemBytes) {
      throw new JsonItemError(`an item with more than ${maxItemBytes} bytes`);
    }
    throw new SyntaxError('the text ends within an item');
  }

  #close(): undefined {
    this.#end = this.#at;
    return undefined;
  }

  #skipSpaces(): void {
    while (isSpace(this.#text[this.#at])) this.#at += 1;
  }

  #checkRest(bytes: number): void {
    if (bytes > this.#limits.maxRestBytes) {
      throw new JsonItemError(`more than ${this.#limits.maxRestBytes} bytes around its items`);
    }
  }

  /** The position after the bracket that opens the list. */
  #find(field: Buffer): number | undefined {
    const text = this.#text;
    const most = Math.min(text.length, this.#limits.maxRestBytes);
    let depth = 0;
    for (let at = 0; at < most; at += 1) {
      switch (text[at]) {
        case quote: {
          const end = closingQuote(text, at + 1);
          if (depth === 1 && text.subarray(at, end + 1).equals(field)) {
            const start = this.#listAfter(end + 1);
            if (start !== undefined) return start;
          }
          at = end;
          break;
        }
        case openBrace:
        case openBracket:
          depth += 1;
          break;
        case closeBrace:
        case closeBracket:
          depth -= 1;
          break;
        default:
      }
    }
    return undefined;
  }

  #listAfter(from: number): number | undefined {
    const text = this.#text;
    let at = from;
    while (isSpace(text[at])) at += 1;
    if (text[at] !== colon) return undefined;
    at += 1;
    while (isSpace(text[at])) at += 1;
    return text[at] === openBracket ? at + 1 : undefined;
  }
}
