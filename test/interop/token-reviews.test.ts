// The answers of a site about ServiceAccount tokens, field by field beside those of the kube-apiserver that
// issued them. Every difference is in the list of deviations, with its reason; any other one fails.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { encodeReview } from '../../src/auth/review/encode-review.ts';
import { judgeByKeys } from '../../src/auth/review/judge-claims.ts';
import { noKeysFound } from '../../src/auth/review/denial.ts';
import { readReview } from '../../src/auth/review/read-review.ts';
import { readToken } from '../../src/auth/review/read-token.ts';
import { answerEncoding } from '../../src/auth/review/review-encoding.ts';
import type { Verdict } from '../../src/auth/review/verdict.ts';
import { eachField, protobufMediaType, readEnvelope } from '../../src/core/kube/protobuf.ts';
import { HansaError } from '../../src/core/errors/error.ts';
import { statusOf } from '../../src/server/http/status.ts';
import { serviceAccountIssuer } from './kube-apiserver.ts';
import type { Asked, Case, Deviation, Mode } from './review-case.ts';
import { reviewCases } from './review-cases.ts';
import { clusterKeySet, ReviewScene } from './review-scene.ts';

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

const modes: readonly Mode[] = ['jwks'];

let scene: ReviewScene;

before(async () => {
  scene = await ReviewScene.start();
});
after(() => scene?.stop());

for (const mode of modes) {
  for (const [group, cases] of Object.entries(reviewCases)) {
    suite(`${mode}: ${group}`, () => {
      for (const each of cases) test(each.name, () => compare(mode, each));
    });
  }
}

async function compare(mode: Mode, { ask, deviation, untilDenied }: Case): Promise<void> {
  let asked = await ask(scene);
  let theirs = await askKube(asked);
  // The caches of kube-apiserver learn of a deletion within seconds.
  if (untilDenied) {
    for (let attempt = 0; isAccepted(theirs) && attempt < 100; attempt += 1) {
      await delay(100);
      asked = await ask(scene);
      theirs = await askKube(asked);
    }
  }
  const ours = askSite(mode, asked);
  if (deviation?.modes.includes(mode)) {
    assert.notDeepEqual(ours, theirs, `the deviation is gone: ${deviation.reason}`);
    assertDeviates(ours, deviation);
    return;
  }
  assert.deepEqual(ours, theirs);
}

async function askKube({ body, contentType, accept }: Asked): Promise<Answer> {
  const { status, headers, bytes } = await scene.kube.client.send({
    method: 'POST',
    path: '/apis/authentication.k8s.io/v1/tokenreviews',
    headers: {
      ...(contentType === undefined ? {} : { 'content-type': contentType }),
      ...(accept === undefined ? {} : { accept }),
    },
    body,
  });
  return { status, body: decode(bytes, String(headers['content-type'])) };
}

function askSite(_mode: Mode, { body, contentType, accept }: Asked): Answer {
  try {
    const encoding = answerEncoding(accept);
    const request = readReview(Buffer.from(body as string), { contentType, version: 'v1' });
    const { token, audiences } = request.question;
    const read = readToken(token, clusterKeySet, serviceAccountIssuer);
    let verdict: Verdict = noKeysFound;
    if (read.type === 'denied') verdict = read.verdict;
    if (read.type === 'signed') {
      const cluster = { apiAudiences: [serviceAccountIssuer] };
      verdict = judgeByKeys(read.token, cluster, audiences, Date.now());
    }
    const encoded = encodeReview(request, verdict, encoding);
    return { status: 201, body: decode(Buffer.from(encoded.body as string), encoded.contentType) };
  } catch (error) {
    assert.ok(error instanceof HansaError);
    const status = statusOf(error);
    return { status: status.code ?? 0, body: status };
  }
}

/** What is compared: without managedFields, which name the client and the time. */
function decode(bytes: Buffer, contentType: string): unknown {
  if (contentType !== protobufMediaType) {
    const object = JSON.parse(bytes.toString()) as { metadata: Record<string, unknown> };
    delete object.metadata['managedFields'];
    return object;
  }
  const { raw, ...type } = readEnvelope(bytes);
  const fields = (message: Buffer) => {
    const found: [number, Buffer][] = [];
    eachField(message, (field, value) => found.push([field, value]));
    return found;
  };
  return {
    ...type,
    message: fields(raw).map(([field, value]) =>
      field === metadataField
        ? fields(value).filter(([inner]) => inner !== managedFieldsField)
        : value.toString('latin1'),
    ),
  };
}

const metadataField = 1;
const managedFieldsField = 17;

function assertDeviates(answer: Answer, { ours }: Deviation): void {
  const { status, message } = answer.body as { status: { error?: string }; message?: string };
  if (ours === 'accepted') assert.ok(isAccepted(answer));
  else if (ours === 'denied') assert.deepEqual(status, { user: {} });
  else assert.match(message ?? status.error ?? '', ours);
}

function isAccepted({ body }: Answer): boolean {
  const { status } = body as { status?: { authenticated?: boolean } };
  return status?.authenticated === true;
}
