// The answers of a site about ServiceAccount tokens, field by field beside those of the kube-apiserver that
// issued them. Every difference is in the list of deviations, with its reason; any other one fails.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { VirtualClock } from '../../src/core/clock/virtual.ts';
import { eachField, protobufMediaType, readEnvelope } from '../../src/core/kube/protobuf.ts';
import { Dice } from './dice.ts';
import { comparable, isKnownDifference, randomReview } from './random-reviews.ts';
import {
  type Answer,
  type Asked,
  type Case,
  type Deviation,
  everywhere,
  type Mode,
  review,
} from './review-case.ts';
import { reviewCases } from './review-cases.ts';
import { ReviewEndpoint } from './review-endpoint.ts';
import { ReviewScene } from './review-scene.ts';
import { ReviewSite } from './review-site.ts';
import type { WireAnswer } from './wire.ts';

/** REVIEW_SEED repeats a run, REVIEW_ROUNDS makes it longer. */
const seed = Number(process.env['REVIEW_SEED'] ?? 12);
const rounds = Number(process.env['REVIEW_ROUNDS'] ?? 150);

let scene: ReviewScene;
let site: ReviewEndpoint;

before(async () => {
  scene = await ReviewScene.start();
  site = await ReviewEndpoint.start(scene.kube);
});
after(async () => {
  await site?.stop();
  await scene?.stop();
});

for (const mode of everywhere) {
  for (const [group, cases] of Object.entries(reviewCases)) {
    suite(`${mode}: ${group}`, () => {
      for (const each of cases) test(each.name, () => compare(mode, each));
    });
  }
}

suite(`jwks: random tokens and bodies of seed ${seed}`, () => {
  for (const kind of ['token', 'body', 'protobuf'] as const) {
    test(`${kind}: are answered alike`, async () => {
      const dice = new Dice(seed);
      for (let round = 0; round < rounds; round += 1) {
        const asked = randomReview[kind](scene, dice);
        const theirs = await askKube(asked);
        const ours = await askSite('jwks', asked);
        if (isKnownDifference(asked, ours, theirs)) continue;
        const shown = asked.body.toString('latin1');
        assert.deepEqual(ours, comparable(theirs), `round ${round} of seed ${seed}: ${shown}`);
      }
    });
  }
});

test('the documentation lists every deviation, and no other one', async () => {
  const page = await readFile(
    new URL('../../docs/token-review-differences.md', import.meta.url),
    'utf8',
  );
  const listed = [...page.matchAll(/^\| ([^|]+) \|.*\| (`jwks`|all) \|$/gm)].map(
    ([, reason, modes]) => `${reason} (${modes})`,
  );
  const found = Object.values(reviewCases)
    .flat()
    .flatMap(({ deviation }) => deviation ?? [])
    .map(({ reason, modes }) => `${reason} (${modes.length === 1 ? '`jwks`' : 'all'})`);
  assert.deepEqual(new Set(listed), new Set(found));
});

suite('v1beta1, which kube-apiserver no longer serves itself', () => {
  const v1beta1 = 'authentication.k8s.io/v1beta1';
  for (const mode of everywhere) {
    test(`is answered as v1 in mode ${mode}`, async () => {
      for (const token of [scene.token(), scene.token({ exp: 1 })]) {
        const theirs = await askKube(review(token));
        const asked = review(token, undefined, { apiVersion: v1beta1 });
        const ours = answerOf(await site.ask(mode, asked, 'v1beta1'));
        assert.deepEqual(ours, {
          ...theirs,
          body: { ...(theirs.body as object), apiVersion: v1beta1 },
        });
      }
    });
  }
});

suite('a token of a pod that is deleted', () => {
  test('is accepted for the lag of mode hybrid, and then denied as by kube-apiserver', async () => {
    const clock = new VirtualClock(Date.now());
    const hybrid = new ReviewSite(scene.kube, clock);
    try {
      const pod = await scene.pod('revoked');
      const token = scene.token({}, { pod });
      assert.ok((await hybrid.review('hybrid', token)).authenticated);
      await scene.remove('pods', pod.name);
      const [, theirs] = await askKubeUntil(
        async () => review(token),
        (answer) => !isAccepted(answer),
      );
      await clock.advance(9_999);
      assert.ok((await hybrid.review('hybrid', token)).authenticated);
      await clock.advance(1);
      const { status } = theirs.body as { status: { error: string } };
      assert.deepEqual(await hybrid.review('hybrid', token), {
        authenticated: false,
        error: status.error,
      });
      assert.deepEqual(await hybrid.review('tokenreview', token), {
        authenticated: false,
        error: status.error,
      });
    } finally {
      hybrid.stop();
    }
  });
});

async function compare(mode: Mode, { ask, deviation, untilDenied }: Case): Promise<void> {
  const [asked, theirs] = await askKubeUntil(
    async () => ask(scene),
    (answer) => untilDenied !== true || !isAccepted(answer),
  );
  const ours = await askSite(mode, asked);
  if (deviation?.modes.includes(mode)) {
    assert.notDeepEqual(ours, theirs, `the deviation is gone: ${deviation.reason}`);
    assertDeviates(ours, deviation);
    return;
  }
  assert.deepEqual(ours, theirs);
}

/** The caches of kube-apiserver learn of a deletion within seconds, and keep its verdicts for ten. */
async function askKubeUntil(
  ask: () => Promise<Asked>,
  isEnough: (answer: Answer) => boolean,
): Promise<[Asked, Answer]> {
  for (let attempt = 0; ; attempt += 1) {
    const asked = await ask();
    const answer = await askKube(asked);
    if (isEnough(answer) || attempt === 300) return [asked, answer];
    await delay(100);
  }
}

async function askKube({ body, contentType, accept }: Asked): Promise<Answer> {
  return answerOf(
    await scene.kube.client.send({
      method: 'POST',
      path: '/apis/authentication.k8s.io/v1/tokenreviews',
      headers: {
        ...(contentType === undefined ? {} : { 'content-type': contentType }),
        ...(accept === undefined ? {} : { accept }),
      },
      body,
    }),
  );
}

async function askSite(mode: Mode, asked: Asked): Promise<Answer> {
  return answerOf(await site.ask(mode, asked));
}

function answerOf({ status, headers, bytes }: WireAnswer): Answer {
  return { status, body: decode(bytes, String(headers['content-type'])) };
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
  const { status, message } = answer.body as {
    status?: { error?: string };
    message?: object | string;
  };
  if (ours === 'accepted') assert.ok(isAccepted(answer));
  else if (ours === 'denied') assert.deepEqual(status, { user: {} });
  else if (typeof message === 'object') assert.match(JSON.stringify(message), ours);
  else assert.match(message ?? status?.error ?? '', ours);
}

function isAccepted({ body }: Answer): boolean {
  const { status } = body as { status?: { authenticated?: boolean } };
  return status?.authenticated === true;
}
