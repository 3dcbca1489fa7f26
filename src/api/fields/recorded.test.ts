// What a real kube-apiserver 1.36.3 answered to random requests about objects of the sample kind,
// replayed: recorded-transcript.jsonl has a step a line, several objects one after another. A step
// holds the decoded request and the answer, without metadata that the server makes up; steps are a
// second apart. The live oracle (test/interop) asks the same of the whole server.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { HansaError } from '../../core/errors/error.ts';
import type { Json, JsonObject } from '../object.ts';
import { applyDefaults } from '../schema/default.ts';
import { prune } from '../schema/prune.ts';
import { coerceMetadata } from '../metadata/metadata.ts';
import { keepTimesIfUnchanged, recordUpdate, serverSideApply } from './ownership.ts';
import { apiVersion, kind, sampleSchema } from './conformance-sample.ts';

interface Step {
  readonly story: number;
  readonly call: 'update' | 'apply';
  readonly manager: string;
  readonly subresource?: 'status';
  readonly force?: boolean;
  readonly time: string;
  readonly sent: JsonObject;
  readonly answer?: JsonObject;
  readonly error?: { readonly message: string; readonly causes: readonly Json[] };
}

const steps = readFileSync(new URL('recorded-transcript.jsonl', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as Step);

/** What the server does around ownership: decode what was merged, and restore what may not be written. */
function answer(live: JsonObject | undefined, step: Step): JsonObject {
  const { call, manager, subresource, force = false, time, sent } = step;
  const input = {
    schema: sampleSchema,
    apiVersion,
    kind,
    live,
    manager,
    timeIso: time,
    ...(subresource === undefined ? {} : { subresource }),
  };
  const written =
    call === 'update'
      ? recordUpdate({ ...input, next: sent })
      : decode(serverSideApply({ ...input, applied: sent, force }));
  const restored = restore(live, written, subresource);
  return live === undefined ? restored : keepTimesIfUnchanged(live, restored);
}

function decode(object: JsonObject): JsonObject {
  const { value } = prune(sampleSchema, object);
  const defaulted = applyDefaults(sampleSchema, value) as JsonObject;
  const { metadata } = coerceMetadata(defaulted['metadata']);
  return { ...defaulted, metadata: metadata as JsonObject };
}

function restore(
  live: JsonObject | undefined,
  written: JsonObject,
  subresource: 'status' | undefined,
): JsonObject {
  const { status, ...rest } = written;
  if (subresource === undefined) {
    const liveStatus = live?.['status'];
    return liveStatus === undefined ? rest : { ...rest, status: liveStatus };
  }
  const { status: _, ...liveRest } = live ?? {};
  const { managedFields: __, ...metadata } = liveRest['metadata'] as JsonObject;
  const { managedFields } = written['metadata'] as JsonObject;
  return {
    ...liveRest,
    metadata: managedFields === undefined ? metadata : { ...metadata, managedFields },
    ...(status === undefined ? {} : { status }),
  };
}

describe('the answers of a real kube-apiserver', () => {
  let live: JsonObject | undefined;
  let story = -1;
  for (const [i, step] of steps.entries()) {
    const { call, manager, subresource } = step;
    it(`are ours, step ${i}: ${call} ${subresource ?? ''} by ${manager}`, () => {
      if (step.story !== story) live = undefined;
      story = step.story;
      if (step.error !== undefined) {
        const { message, causes } = step.error;
        assert.throws(
          () => answer(live, step),
          (error) => {
            assert.ok(error instanceof HansaError);
            assert.equal(error.message, message);
            assert.deepEqual(error.details?.causes ?? [], causes);
            return true;
          },
        );
        return;
      }
      const before = live;
      live = step.answer;
      assert.deepEqual(answer(before, step), step.answer);
      assert.equal(
        fieldsText(answer(before, step)),
        fieldsText(step.answer ?? {}),
        'the order of fields differs',
      );
    });
  }
});

/** deepEqual ignores the order of keys; clients that compare bytes do not. */
function fieldsText(object: JsonObject): string {
  const { managedFields = [] } = object['metadata'] as { managedFields?: readonly JsonObject[] };
  return managedFields.map((entry) => JSON.stringify(entry['fieldsV1'])).join('\n');
}
