// Reads messages in the protobuf encoding of Kubernetes, as far as reviews need it: texts, flags, lists and
// maps of texts, and messages of them. protobuf-writer.ts writes them.
//
// The envelope: the bytes `k8s\0`, then a runtime.Unknown (type, raw message).

import { decodeUtf8 } from '../json/decode-utf8.ts';

export const protobufMediaType = 'application/vnd.kubernetes.protobuf';

/** The message says what is wrong, in the words of Go's decoder where it has some. */
export class ProtobufError extends Error {}

/** `map`: map<string, string>. `lists`: a map of messages whose field 1 is a list of texts. */
export type Shape = {
  readonly [field: number]: readonly [
    name: string,
    shape: Shape | 'text' | 'texts' | 'map' | 'lists' | 'flag',
  ];
};

/** How many texts and messages may still be read. */
export interface FieldBudget {
  left: number;
}

export interface Envelope {
  readonly apiVersion: string;
  readonly kind: string;
  readonly raw: Buffer;
}

export const magic = Buffer.from('k8s\0', 'latin1');
const nothing = Buffer.alloc(0);

/** Throws ProtobufError. */
export function readEnvelope(body: Buffer): Envelope {
  if (body.length === 0) throw new ProtobufError('empty data');
  if (!body.subarray(0, magic.length).equals(magic)) {
    throw new ProtobufError(
      `provided data does not appear to be a protobuf message, expected prefix [${[...magic].join(' ')}]`,
    );
  }
  if (body.length === magic.length) throw new ProtobufError('empty body');
  let apiVersion = '';
  let kind = '';
  let raw: Buffer = nothing;
  eachField(body.subarray(magic.length), (field, bytes) => {
    if (field === 2) raw = bytes;
    if (field !== 1) return;
    eachField(bytes, (inner, text) => {
      if (inner === 1) apiVersion = decodeUtf8(text);
      else if (inner === 2) kind = decodeUtf8(text);
    });
  });
  return { apiVersion, kind, raw };
}

/** Skips fields that the shape does not name. Throws ProtobufError. */
export function readMessage(
  bytes: Buffer,
  shape: Shape,
  budget?: FieldBudget,
): Record<string, unknown> {
  const message: Record<string, unknown> = {};
  const take = (field: number, value: Buffer): void => {
    if (budget !== undefined && --budget.left < 0) throw new ProtobufError('too many fields');
    const known = shape[field];
    if (known === undefined) return;
    const [name, inner] = known;
    if (inner === 'text') message[name] = decodeUtf8(value);
    else if (inner === 'texts') {
      const texts = (message[name] ??= []) as string[];
      texts.push(decodeUtf8(value));
    } else if (inner === 'map') {
      const map = (message[name] ??= Object.create(null)) as Record<string, string>;
      const { key = '', value: text = '' } = readMessage(value, entry, budget) as Entry<string>;
      map[key] = text;
    } else if (inner === 'lists') {
      const map = (message[name] ??= Object.create(null)) as Record<string, readonly string[]>;
      const { key = '', value: list } = readMessage(value, listEntry, budget) as Entry<List>;
      map[key] = list?.items ?? [];
    } else if (inner !== 'flag') message[name] = readMessage(value, inner, budget);
  };
  eachField(bytes, take, (field, value) => {
    const known = shape[field];
    if (known?.[1] === 'flag') message[known[0]] = value !== 0;
  });
  return message;
}

interface Entry<T> {
  readonly key?: string;
  readonly value?: T;
}
interface List {
  readonly items?: readonly string[];
}
const entry: Shape = { 1: ['key', 'text'], 2: ['value', 'text'] };
const listEntry: Shape = { 1: ['key', 'text'], 2: ['value', { 1: ['items', 'texts'] }] };

/**
 * Calls `take` for each field of wire type 2, and `takeNumber` for each of wire type 0. Skips others, as a
 * protobuf reader must. Throws ProtobufError.
 */
export function eachField(
  bytes: Buffer,
  take: (field: number, bytes: Buffer) => void,
  takeNumber?: (field: number, value: number) => void,
): void {
  let at = 0;
  const varint = (): number => {
    let value = 0;
    // At most ten bytes. Numbers that need more than 53 bits are not used, so their rounding does not matter.
    for (let factor = 1; factor <= 2 ** 63; factor *= 128) {
      const byte = bytes[at];
      if (byte === undefined) throw new ProtobufError('unexpected EOF');
      at += 1;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
    throw new ProtobufError('proto: integer overflow');
  };
  while (at < bytes.length) {
    const key = varint();
    const field = Math.floor(key / 8);
    if (field === 0) throw new ProtobufError('proto: illegal tag 0');
    switch (key % 8) {
      case 0: {
        const number = varint();
        takeNumber?.(field, number);
        break;
      }
      case 1:
        at += 8;
        break;
      case 2: {
        const length = varint();
        if (at + length > bytes.length) throw new ProtobufError('unexpected EOF');
        take(field, bytes.subarray(at, at + length));
        at += length;
        break;
      }
      case 5:
        at += 4;
        break;
      default:
        throw new ProtobufError(`proto: illegal wireType ${key % 8}`);
    }
  }
  if (at > bytes.length) throw new ProtobufError('unexpected EOF');
}
