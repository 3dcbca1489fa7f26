// Writes the TokenReview that this site sends to the API server of a cluster. An API server takes less CPU time
// to read and write protobuf than JSON, and that of forwarded reviews is mostly its own.

import type { KubeRequest } from '../../core/kube/kube-client.ts';
import { protobufMediaType } from '../../core/kube/protobuf.ts';
import { ProtobufWriter } from '../../core/kube/protobuf-writer.ts';
import type { TokenQuestion } from '../review/verdict.ts';

export type QuestionEncoding = 'protobuf' | 'json';

const apiVersion = 'authentication.k8s.io/v1';
const kind = 'TokenReview';
const accept = { accept: `${protobufMediaType}, application/json` };
const writer = new ProtobufWriter();

/** Without audiences the API server uses its own, which this site need not know. */
export function encodeQuestion(
  { token, audiences }: TokenQuestion,
  encoding: QuestionEncoding,
): Pick<KubeRequest, 'body' | 'contentType' | 'headers'> {
  if (encoding === 'json') {
    const spec = audiences.length === 0 ? { token } : { token, audiences };
    return { body: { apiVersion, kind, spec } };
  }
  const body = writer.envelope(apiVersion, kind, () => {
    writer.message(2, () => {
      writer.texts(2, audiences);
      writer.text(1, token);
    });
  });
  return { body, contentType: protobufMediaType, headers: accept };
}
