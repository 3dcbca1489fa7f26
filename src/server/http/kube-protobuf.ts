// Reads reviews of a caller's own rights in the protobuf encoding of Kubernetes, which kubectl sends without
// a fallback to JSON, into their JSON form.
//
// Field numbers are those of k8s.io/api/authorization/v1 and authentication/v1 (generated.proto), which
// never change.

import { HansaError } from '../../core/errors/error.ts';
import { ProtobufError, readEnvelope, readMessage, type Shape } from '../../core/kube/protobuf.ts';

const resourceAttributes: Shape = {
  1: ['namespace', 'text'],
  2: ['verb', 'text'],
  3: ['group', 'text'],
  4: ['version', 'text'],
  5: ['resource', 'text'],
  6: ['subresource', 'text'],
  7: ['name', 'text'],
};

const reviews: ReadonlyMap<string, Shape> = new Map(
  Object.entries<Shape>({
    SelfSubjectAccessReview: {
      2: [
        'spec',
        {
          1: ['resourceAttributes', resourceAttributes],
          2: ['nonResourceAttributes', { 1: ['path', 'text'], 2: ['verb', 'text'] }],
        },
      ],
    },
    SelfSubjectRulesReview: { 2: ['spec', { 1: ['namespace', 'text'] }] },
    SelfSubjectReview: {},
  }),
);

/** Throws HANSA_BAD_REQUEST for anything but one of the reviews. */
export function readReview(body: Buffer): Readonly<Record<string, unknown>> {
  try {
    const { apiVersion, kind, raw } = readEnvelope(body);
    const shape = reviews.get(kind);
    if (shape === undefined) throw malformed(`it holds a ${JSON.stringify(kind)}`);
    return { apiVersion, kind, ...readMessage(raw, shape) };
  } catch (error) {
    throw error instanceof ProtobufError ? malformed(error.message) : error;
  }
}

function malformed(why: string): HansaError {
  return new HansaError(
    'HANSA_BAD_REQUEST',
    `Cannot read the body as a review in protobuf: ${why}.`,
  );
}
