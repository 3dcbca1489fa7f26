// Reads reviews in the protobuf encoding of Kubernetes, which kubectl sends without a fallback to JSON,
// into their JSON form.
//
// The envelope: the bytes `k8s\0`, then a runtime.Unknown (type, raw message). Field numbers are
// those of k8s.io/api/authorization/v1 and authentication/v1 (generated.proto), which never change.

import { HansaError } from '../../core/errors/error.ts';

export const protobufMediaType = 'application/vnd.kubernetes.protobuf';

type Shape = { readonly [field: number]: readonly [name: string, shape: Shape | 'string'] };

const typeMeta: Shape = { 1: ['apiVersion', 'string'], 2: ['kind', 'string'] };

const resourceAttributes: Shape = {
  1: ['namespace', 'string'],
  2: ['verb', 'string'],
  3: ['group', 'string'],
  4: ['version', 'string'],
  5: ['resource', 'string'],
  6: ['subresource', 'string'],
  7: ['name', 'string'],
};

const reviews: ReadonlyMap<string, Shape> = new Map(
  Object.entries<Shape>({
    SelfSubjectAccessReview: {
      2: [
        'spec',
        {
          1: ['resourceAttributes', resourceAttributes],
          2: ['nonResourceAttributes', { 1: ['path', 'string'], 2: ['verb', 'string'] }],
        },
      ],
    },
    SelfSubjectRulesReview: { 2: ['spec', { 1: ['namespace', 'string'] }] },
    SelfSubjectReview: {},
  }),
);

const magic = Buffer.from('k8s\0', 'latin1');

/** Throws HANSA_BAD_REQUEST for anything but one of the reviews. */
export function readReview(body: Buffer): Readonly<Record<string, unknown>> {
  if (!body.subarray(0, magic.length).equals(magic))
    throw malformed('it does not begin with k8s\\0');
  let type: Readonly<Record<string, unknown>> = {};
  let raw: Buffer = Buffer.alloc(0);
  for (const { field, bytes } of lengthDelimited(body.subarray(magic.length))) {
    if (field === 1) type = readMessage(bytes, typeMeta);
    else if (field === 2) raw = bytes;
  }
  const kind = typeof type['kind'] === 'string' ? type['kind'] : '';
  const shape = reviews.get(kind);
  if (shape === undefined) throw malformed(`it holds a ${JSON.stringify(kind)}`);
  return { ...type, ...readMessage(raw, shape) };
}

function readMessage(bytes: Buffer, shape: Shape): Readonly<Record<string, unknown>> {
  const message: Record<string, unknown> = {};
  for (const { field, bytes: value } of lengthDelimited(bytes)) {
    const known = shape[field];
    if (known === undefined) continue;
    const [name, inner] = known;
    message[name] = inner === 'string' ? value.toString('utf8') : readMessage(value, inner);
  }
  return message;
}

/** The fields of wire type 2. Skips others, as a protobuf reader must. */
function* lengthDelimited(bytes: Buffer): Generator<{ field: number; bytes: Buffer }> {
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let shift = 1; ; shift *= 128) {
      const byte = bytes[at];
      if (byte === undefined || shift > 2 ** 35) throw malformed('it is cut short');
      at += 1;
      value += (byte & 0x7f) * shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const key = varint();
    const field = Math.floor(key / 8);
    switch (key % 8) {
      case 0:
        varint();
        break;
      case 1:
        at += 8;
        break;
      case 2: {
        const length = varint();
        if (at + length > bytes.length) throw malformed('it is cut short');
        yield { field, bytes: bytes.subarray(at, at + length) };
        at += length;
        break;
      }
      case 5:
        at += 4;
        break;
      default:
        throw malformed('it has a field of an unknown wire type');
    }
  }
}

function malformed(why: string): HansaError {
  return new HansaError(
    'HANSA_BAD_REQUEST',
    `Cannot read the body as a review in protobuf: ${why}.`,
  );
}
