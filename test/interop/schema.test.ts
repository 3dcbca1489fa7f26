// Compares the results of src/api for an object (pruning, defaults, error messages) with those of a
// real kube-apiserver with our generated CRDs. The expected values come from kube-apiserver, so
// this file contains none. Objects are random, so that errors are combined. The test prints a
// failing seed, with which the run can be repeated.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import fc from 'fast-check';
import { crdOf } from '../../src/api/documents/crd.ts';
import { discoveryDocuments } from '../../src/api/documents/discovery.ts';
import { parseFieldSelector } from '../../src/api/selectors/field-selector.ts';
import { allKinds } from '../../src/test-planes.ts';
import type { Kind } from '../../src/api/kind.ts';
import { parseLabelSelector } from '../../src/api/selectors/label-selector.ts';
import { apiVersion } from '../../src/api/object.ts';
import { dropDuplicateOwners } from '../../src/api/metadata/owner-references.ts';
import { createRegistry } from '../../src/api/registry.ts';
import {
  defaultObject,
  pruneObject,
  strictlyRefused,
  type Untyped,
  validateObject,
  validateStatus,
} from '../../src/api/resource-schema.ts';
import {
  type Cell,
  type TableColumn,
  tableColumns,
  tableRow,
} from '../../src/api/documents/table.ts';
import { invalidObject } from '../../src/api/schema/field-error.ts';
import { HansaError } from '../../src/core/errors/error.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { missingTools } from './tool.ts';
import { widget } from './widget.ts';
import { anyMetadata, anySpec, anyStatus, anyText } from './widget-values.ts';

interface Answer {
  readonly code: 'accepted' | 'invalid' | 'bad request' | 'conflict';
  /** Sorted: Go walks its maps in random order. */
  readonly problems: readonly string[];
  /** What is left of the object: its labels, annotations, finalizers, owners, spec and status. */
  readonly kept?: unknown;
}

const serverSet = ['uid', 'resourceVersion', 'generation', 'creationTimestamp', 'managedFields'];

function keptOf(object: Untyped): unknown {
  const metadata = { ...(object['metadata'] as Record<string, unknown>) };
  for (const name of serverSet) delete metadata[name];
  return { metadata, spec: object['spec'], status: object['status'] };
}

function problemsOf(error: HansaError): string[] {
  if (error.code !== 'HANSA_INVALID') return error.message.split(', ').toSorted();
  const causes = error.details?.causes ?? [];
  return causes.map((cause) => `${cause.reason} ${cause.field}: ${cause.message}`).toSorted();
}

/** Our answer to an object that is created, or that replaces `old`. */
function ours(
  object: Untyped,
  how: 'create' | 'update' | 'status',
  strict: boolean,
  old?: Untyped,
): Answer {
  try {
    const pruned = pruneObject(widget, JSON.parse(JSON.stringify(object)) as Untyped);
    if (strict && pruned.unknown.length > 0) {
      throw strictlyRefused(
        widget,
        pruned.unknown.map((path) => `unknown field "${path}"`),
      );
    }
    const defaulted = defaultObject(widget, dropDuplicateOwners(pruned.object).object);
    const whole: Record<string, unknown> = { ...defaulted };
    // What the server does between decoding and validating.
    const metadata = { ...(whole['metadata'] as Record<string, unknown>) };
    const oldMetadata = (old?.['metadata'] ?? {}) as Record<string, unknown>;
    for (const name of serverSet) {
      // An update may name another uid, and is refused for it.
      if (old !== undefined && name === 'uid' && metadata[name] !== undefined) continue;
      delete metadata[name];
      if (oldMetadata[name] !== undefined) metadata[name] = oldMetadata[name];
    }
    if (how === 'status') {
      const status = whole['status'];
      for (const key of Object.keys(whole)) delete whole[key];
      Object.assign(whole, old);
      delete whole['status'];
      if (status !== undefined) whole['status'] = status;
    } else {
      whole['metadata'] = metadata;
      delete whole['status'];
      if (old?.['status'] !== undefined) whole['status'] = old['status'];
    }
    const errors =
      how === 'status'
        ? validateStatus(widget, whole, old ?? {})
        : validateObject(widget, whole, old);
    const name = (whole['metadata'] as { name?: string }).name ?? '';
    if (errors.length > 0)
      throw invalidObject({ group: 'hansa.dev', kind: 'Widget', name }, errors);
    return { code: 'accepted', problems: [], kept: keptOf(whole) };
  } catch (caught) {
    if (!(caught instanceof HansaError)) throw caught;
    const code = caught.code === 'HANSA_INVALID' ? 'invalid' : 'bad request';
    return { code, problems: problemsOf(caught) };
  }
}

interface Status {
  readonly message: string;
  readonly details?: {
    readonly causes?: readonly { reason: string; message: string; field: string }[];
  };
}

function theirs(code: number, text: string): Answer {
  const body = JSON.parse(text) as Untyped & Status;
  if (code < 300) return { code: 'accepted', problems: [], kept: keptOf(body) };
  if (code === 400) return { code: 'bad request', problems: body.message.split(', ').toSorted() };
  if (code === 409) return { code: 'conflict', problems: [body.message] };
  assert.equal(code, 422, text);
  // We leave this line out (deviations.ts).
  const isUnchecked = ({ field, message }: { field: string; message: string }): boolean =>
    field === '<nil>' && message.includes('some validation rules were not checked');
  const causes = (body.details?.causes ?? []).filter((cause) => !isUnchecked(cause));
  const problems = causes.map((cause) => `${cause.reason} ${cause.field}: ${cause.message}`);
  return { code: 'invalid', problems: problems.toSorted() };
}

/** Most runs have little wrong, or the first error of each would hide the rest. */
const rounds = { numRuns: 300 };

suite('objects are read as kube-apiserver reads them', async () => {
  const skip = await missingTools('etcd', 'kube-apiserver');
  let kube: KubeApiserver;
  const collection = '/apis/hansa.dev/v1alpha1/widgets';
  const sound = { apiVersion, kind: 'Widget', metadata: { name: 'one' } };

  async function send(
    method: string,
    path: string,
    object: unknown,
    strict: boolean,
  ): Promise<Answer> {
    const query = `dryRun=All&fieldValidation=${strict ? 'Strict' : 'Ignore'}`;
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify(object);
    const answer = await kube.client.send({ method, path: `${path}?${query}`, headers, body });
    return theirs(answer.status, answer.text);
  }

  before(async () => {
    if (skip) return;
    kube = await startKubeApiserver([...allKinds, widget].map((kind) => crdOf(kind)));
  });
  after(() => kube?.stop());

  test('a spec has the same defaults and the same errors', { skip }, async () => {
    await fc.assert(
      fc.asyncProperty(anySpec, fc.boolean(), async (value, strict) => {
        const object = { ...sound, spec: value };
        assert.deepEqual(
          ours(object, 'create', strict),
          await send('POST', collection, object, strict),
        );
      }),
      rounds,
    );
  });

  test('metadata has the same errors', { skip }, async () => {
    await fc.assert(
      fc.asyncProperty(anyMetadata, fc.boolean(), async (value, strict) => {
        const object = { ...sound, metadata: value, spec: { title: 'ash' } };
        const answer = await send('POST', collection, object, strict);
        const mine = ours(object, 'create', strict);
        // Which of several values of a wrong type Go's decoder meets first is its own affair.
        if (
          answer.code === 'bad request' &&
          /cannot unmarshal|parsing time/.test(answer.problems.join())
        ) {
          assert.equal(mine.code, 'bad request');
          return;
        }
        assert.deepEqual(mine, answer);
      }),
      rounds,
    );
  });

  test('a metadata field of a wrong type is refused in the same words', { skip }, async () => {
    const wrong: readonly object[] = [
      { name: 5 },
      { labels: { a: 5 } },
      { labels: [] },
      { finalizers: 'x' },
      { finalizers: [5] },
      { ownerReferences: {} },
      { ownerReferences: ['x'] },
      { ownerReferences: [{ uid: 5 }] },
      { ownerReferences: [{ controller: 'yes' }] },
      { generation: '5' },
      { generation: 1.5 },
      { creationTimestamp: 5 },
      { managedFields: [{ manager: 5 }] },
      { managedFields: [{ time: 'x' }] },
      ...[
        'never',
        '',
        '2026',
        '2026-01-02',
        '2026-13-02T03:04:05Z',
        '2026-02-30T03:04:05Z',
        '2026-01-02T25:04:05Z',
        '2026-01-02T03:61:05Z',
        '2026-01-02T03:04:61Z',
        '2026-01-02T03:04:05',
        '2026-01-02T03:04:05Zulu',
        '2026-01-02T03:04:05+1',
        '2026-01-02 03:04:05Z',
      ].map((creationTimestamp) => ({ creationTimestamp })),
    ];
    const strict = true;
    for (const part of wrong) {
      const object = { ...sound, metadata: { name: 'one', ...part }, spec: { title: 'ash' } };
      assert.deepEqual(
        ours(object, 'create', strict),
        await send('POST', collection, object, strict),
      );
    }
  });

  suite('changes', { skip }, () => {
    let old: Untyped;
    before(async () => {
      const object = { ...sound, spec: { title: 'oak', ports: [{ name: 'http', port: 80 }] } };
      const created = await kube.client.send({
        method: 'POST',
        path: collection,
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(object),
      });
      assert.equal(created.status, 201, created.text);
      old = JSON.parse(created.text) as Untyped;
    });

    test('a changed spec has the same errors', async () => {
      await fc.assert(
        fc.asyncProperty(anySpec, fc.boolean(), async (value, strict) => {
          const object = { ...old, spec: value };
          assert.deepEqual(
            ours(object, 'update', strict, old),
            await send('PUT', `${collection}/one`, object, strict),
          );
        }),
        rounds,
      );
    });

    test('changed metadata has the same errors', async () => {
      const changes = fc.record(
        {
          uid: fc.constantFrom('other', ''),
          creationTimestamp: fc.constantFrom('2020-01-02T03:04:05Z', null),
          generateName: fc.constantFrom('A', 'a/b', 'a%'),
          labels: fc.dictionary(fc.constantFrom('a', '-'), fc.constantFrom('v', '-v')),
          annotations: fc.dictionary(fc.constantFrom('a', 'a b'), anyText),
          finalizers: fc.array(fc.constantFrom('a.b/c', 'orphan', 'foregroundDeletion', 'a b')),
          deletionTimestamp: fc.constant('2020-01-02T03:04:05Z'),
          deletionGracePeriodSeconds: fc.constantFrom(0, 5),
        },
        { requiredKeys: [] },
      );
      await fc.assert(
        fc.asyncProperty(changes, async (value) => {
          const object = { ...old, metadata: { ...(old['metadata'] as object), ...value } };
          const answer = await send('PUT', `${collection}/one`, object, false);
          // Another uid is a conflict, found before anything is validated.
          if (answer.code === 'conflict') return;
          assert.deepEqual(ours(object, 'update', false, old), answer);
        }),
        rounds,
      );
    });

    test('its row in a table has the same cells under the same columns', async () => {
      const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io';
      const answer = await kube.client.send({
        method: 'GET',
        path: collection,
        headers: { accept },
      });
      const table = JSON.parse(answer.text) as {
        readonly columnDefinitions: readonly TableColumn[];
        readonly rows: readonly { readonly cells: readonly Cell[] }[];
      };
      const facts = ({ name, type, format, priority }: TableColumn): unknown[] => [
        name,
        type,
        format,
        priority,
      ];
      assert.deepEqual(tableColumns(widget).map(facts), table.columnDefinitions.map(facts));
      // The last is its age, which the next second changes.
      const row = tableRow(widget, old, Date.now()).slice(0, -1);
      assert.deepEqual(row, table.rows[0]?.cells.slice(0, -1));
    });

    test('a changed status has the same errors', async () => {
      await fc.assert(
        fc.asyncProperty(anyStatus, fc.boolean(), async (value, strict) => {
          const object = { ...old, status: value };
          const path = `${collection}/one/status`;
          assert.deepEqual(
            ours(object, 'status', strict, old),
            await send('PUT', path, object, strict),
          );
        }),
        rounds,
      );
    });
  });

  test('kinds are discovered alike, but for the verbs of singletons', { skip }, async () => {
    const kinds: readonly Kind[] = [...allKinds, widget];
    const path = '/apis/hansa.dev/v1alpha1';
    const answer = await kube.client.send({ method: 'GET', path });
    const facts = (document: unknown): readonly string[] =>
      (document as { readonly resources: readonly Readonly<Record<string, unknown>>[] }).resources
        .map((resource) => {
          const kind = kinds.find((candidate) => candidate.kind === resource['kind']);
          const verbs = kind?.singleton === undefined ? resource['verbs'] : undefined;
          const { name, singularName, namespaced, shortNames, categories } = resource;
          return JSON.stringify([name, singularName, namespaced, shortNames, categories, verbs]);
        })
        .toSorted();
    const document = discoveryDocuments(createRegistry(kinds)).get(path);
    assert.deepEqual(facts(document), facts(JSON.parse(answer.text)));
  });

  const selectorPart = fc.constantFrom(
    'a',
    'b.c/d',
    '-a',
    'x',
    '=',
    '==',
    '!=',
    '!',
    ',',
    ' ',
    '(',
    ')',
    'in',
    'notin',
    '<',
    '>',
    '5',
    '',
  );

  async function list(parameter: string, value: string): Promise<string> {
    const path = `${collection}?${parameter}=${encodeURIComponent(value)}`;
    const answer = await kube.client.send({ method: 'GET', path });
    return answer.status === 200 ? 'accepted' : (JSON.parse(answer.text) as Status).message;
  }

  function attempt(parse: () => unknown): string {
    try {
      parse();
      return 'accepted';
    } catch (caught) {
      return (caught as Error).message;
    }
  }

  test('label selectors are parsed and refused alike', { skip }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(selectorPart, { maxLength: 9 }), async (parts) => {
        const selector = parts.join('');
        const answer = await list('labelSelector', selector);
        assert.equal(
          attempt(() => parseLabelSelector(selector)),
          answer,
        );
      }),
      rounds,
    );
  });

  const fieldPart = fc.constantFrom(
    'metadata.name',
    'spec.color',
    'spec.size',
    'x',
    '=',
    '==',
    '!=',
    ',',
    '\\',
    '\\,',
    '',
  );

  test('field selectors are parsed and refused alike', { skip }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fieldPart, { maxLength: 7 }), async (parts) => {
        const selector = parts.join('');
        const answer = await list('fieldSelector', selector);
        assert.equal(
          attempt(() => parseFieldSelector(widget, selector)),
          answer,
        );
      }),
      rounds,
    );
  });
});
