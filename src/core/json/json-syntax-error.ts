// Describes a JSON syntax error in the words of Go's encoding/json, which kubectl users know. Runs only
// after JSON.parse has failed. O(length).

/** Go's decoder rejects deeper nesting. */
const maxDepth = 10_000;

class SyntaxProblem extends Error {}

const endOfInput = 'unexpected end of JSON input';

/** Shows the offending byte as a character, as Go does. */
export function jsonSyntaxError(bytes: Buffer): string {
  try {
    new Scanner(bytes).document();
  } catch (error) {
    if (error instanceof SyntaxProblem) return error.message;
    throw error;
  }
  // Not reached for input that JSON.parse rejects.
  return 'invalid JSON';
}

class Scanner {
  /** For long tokens: reading bytes is faster than reading characters. */
  readonly #bytes: Buffer;
  readonly #text: string;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
    this.#text = bytes.toString('latin1');
  }

  document(): void {
    this.#value();
    this.#space();
    if (this.#at < this.#text.length) this.#fail('after top-level value');
  }

  /** Without recursion, because the input controls the depth. */
  #value(): void {
    const open: ('{' | '[')[] = [];
    for (;;) {
      this.#space();
      const start = this.#text[this.#at];
      if (start === '{' || start === '[') {
        if (open.length >= maxDepth) this.#fail('exceeded max depth');
        open.push(start);
        this.#at += 1;
        this.#space();
        if (this.#text[this.#at] === (start === '{' ? '}' : ']')) this.#closeAll(open);
        else {
          if (start === '{') this.#key();
          continue;
        }
      } else {
        this.#scalar();
        this.#closeAll(open, false);
      }
      if (open.length === 0) return;
      if (open.at(-1) === '{') this.#key();
    }
  }

  /** After a value: closes the collections that end here, and stops after a comma. */
  #closeAll(open: ('{' | '[')[], atClosing = true): void {
    if (atClosing) {
      open.pop();
      this.#at += 1;
    }
    while (open.length > 0) {
      this.#space();
      const inside = open.at(-1);
      const next = this.#text[this.#at];
      if (next === ',') {
        this.#at += 1;
        this.#space();
        return;
      }
      if (next !== (inside === '{' ? '}' : ']')) {
        this.#fail(inside === '{' ? 'after object key:value pair' : 'after array element');
      }
      open.pop();
      this.#at += 1;
    }
  }

  #key(): void {
    this.#space();
    if (this.#text[this.#at] !== '"') this.#fail('looking for beginning of object key string');
    this.#string();
    this.#space();
    if (this.#text[this.#at] !== ':') this.#fail('after object key');
    this.#at += 1;
  }

  #scalar(): void {
    const start = this.#text[this.#at];
    if (start === '"') this.#string();
    else if (start === '-' || isDigit(start)) this.#number();
    else if (start === 't') this.#literal('true');
    else if (start === 'f') this.#literal('false');
    else if (start === 'n') this.#literal('null');
    else this.#fail('looking for beginning of value');
  }

  #literal(word: string): void {
    for (let index = 0; index < word.length; index += 1) {
      if (this.#text[this.#at] !== word[index])
        this.#fail(`in literal ${word} (expecting '${word[index]}')`);
      this.#at += 1;
    }
  }

  #string(): void {
    this.#at += 1;
    for (;;) {
      const byte = this.#bytes[this.#at];
      if (byte === 0x22) break;
      if (byte === 0x5c) this.#escape();
      else if (byte === undefined || byte < 0x20) this.#fail('in string literal');
      else this.#at += 1;
    }
    this.#at += 1;
  }

  #escape(): void {
    this.#at += 1;
    const escaped = this.#text[this.#at];
    if (escaped === 'u') {
      for (let digit = 0; digit < 4; digit += 1) {
        this.#at += 1;
        if (!isHexDigit(this.#bytes[this.#at])) this.#fail('in \\u hexadecimal character escape');
      }
    } else if (escaped === undefined || !'bfnrt\\/"'.includes(escaped))
      this.#fail('in string escape code');
    this.#at += 1;
  }

  #number(): void {
    if (this.#text[this.#at] === '-') {
      this.#at += 1;
      if (!isDigit(this.#text[this.#at])) this.#fail('in numeric literal');
    }
    if (this.#text[this.#at] === '0') this.#at += 1;
    else this.#digits();
    if (this.#text[this.#at] === '.') {
      this.#at += 1;
      if (!isDigit(this.#text[this.#at])) this.#fail('after decimal point in numeric literal');
      this.#digits();
    }
    if (this.#text[this.#at] === 'e' || this.#text[this.#at] === 'E') {
      this.#at += 1;
      if (this.#text[this.#at] === '+' || this.#text[this.#at] === '-') this.#at += 1;
      if (!isDigit(this.#text[this.#at])) this.#fail('in exponent of numeric literal');
      this.#digits();
    }
  }

  #digits(): void {
    while (isDigit(this.#text[this.#at])) this.#at += 1;
  }

  #space(): void {
    for (;;) {
      const byte = this.#bytes[this.#at];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return;
      this.#at += 1;
    }
  }

  #fail(context: string): never {
    const character = this.#text[this.#at];
    if (character === undefined) throw new SyntaxProblem(endOfInput);
    throw new SyntaxProblem(`invalid character ${quoted(character)} ${context}`);
  }
}

function isHexDigit(byte = 0): boolean {
  const lower = byte | 0x20;
  return (byte >= 0x30 && byte <= 0x39) || (lower >= 0x61 && lower <= 0x66);
}

function isDigit(character: string | undefined): boolean {
  return character !== undefined && character >= '0' && character <= '9';
}

/** As Go's strconv.Quote, but for the quotes. */
function quoted(character: string): string {
  if (character === "'") return String.raw`'\''`;
  if (character === '"') return `'"'`;
  return `'${shortEscapes.get(character) ?? character.replace(unprintable, escape)}'`;
}

const shortEscapes: ReadonlyMap<string, string> = new Map([
  ['\u0007', String.raw`\a`],
  ['\b', String.raw`\b`],
  ['\f', String.raw`\f`],
  ['\n', String.raw`\n`],
  ['\r', String.raw`\r`],
  ['\t', String.raw`\t`],
  ['\v', String.raw`\v`],
  ['\\', String.raw`\\`],
]);

/** What unicode.IsPrint denies. */
const unprintable = /[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/u;

/** The character is a byte. */
function escape(character: string): string {
  const hex = character.charCodeAt(0).toString(16);
  return character < '\u0080' ? `\\x${hex.padStart(2, '0')}` : `\\u00${hex}`;
}
