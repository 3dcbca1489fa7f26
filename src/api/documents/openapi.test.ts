import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { allKinds } from '../../test-planes.ts';
import { roleKind } from '../kinds/role.ts';
import type { JsonObject } from '../object.ts';
import { openApiDocuments, openApiIndex } from './openapi.ts';
import { createRegistry } from '../registry.ts';

interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, unknown>> };
  readonly 'x-kubernetes-group-version-kind': unknown;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, JsonObject>> };
}

const documents = openApiDocuments(createRegistry(allKinds));
const own = documents.get('apis/hansa.dev/v1alpha1') as unknown as Document;

/** Every `$ref` in a document. */
function references(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(references);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, item]) =>
    key === '$ref' ? [String(item)] : references(item),
  );
}

suite('the OpenAPI documents', () => {
  test('are one a group version', () => {
    assert.deepEqual(
      [...documents.keys()],
      [
        'apis/hansa.dev/v1alpha1',
        'apis/authentication.k8s.io/v1',
        'apis/authentication.k8s.io/v1beta1',
        'apis/authorization.k8s.io/v1',
      ],
    );
  });

  test('refer only to schemas that they hold', () => {
    for (const document of documents.values()) {
      const { schemas } = (document as unknown as Document).components;
      for (const reference of references(document)) {
        assert.ok(reference.replace('#/components/schemas/', '') in schemas, reference);
      }
    }
  });

  test('name each operation once', () => {
    for (const document of documents.values()) {
      const ids = JSON.stringify(document).match(/"operationId":"[^"]+"/g) ?? [];
      assert.equal(new Set(ids).size, ids.length);
    }
  });

  test('let kubectl find the kind of a schema, for explain', () => {
    assert.deepEqual(
      own.components.schemas['dev.hansa.v1alpha1.Role']?.['x-kubernetes-group-version-kind'],
      [{ group: 'hansa.dev', version: 'v1alpha1', kind: 'Role' }],
    );
    assert.ok('dev.hansa.v1alpha1.RoleList' in own.components.schemas);
  });

  test('let kubectl find fieldValidation on PATCH, for apply', () => {
    const patch = own.paths['/apis/hansa.dev/v1alpha1/roles/{name}']?.['patch'];
    assert.deepEqual(patch?.['x-kubernetes-group-version-kind'], {
      group: 'hansa.dev',
      version: 'v1alpha1',
      kind: 'Role',
    });
    assert.ok(
      patch?.parameters?.some(
        ({ name, in: place }) => name === 'fieldValidation' && place === 'query',
      ),
    );
    assert.deepEqual(Object.keys(patch?.requestBody?.content ?? {}), [
      'application/apply-patch+yaml',
      'application/json-patch+json',
      'application/merge-patch+json',
    ]);
  });

  test('have no operation that a singleton does not have', () => {
    assert.deepEqual(Object.keys(own.paths['/apis/hansa.dev/v1alpha1/sites'] ?? {}), [
      'parameters',
      'get',
    ]);
    assert.equal('delete' in (own.paths['/apis/hansa.dev/v1alpha1/sites/{name}'] ?? {}), false);
    assert.ok('/apis/hansa.dev/v1alpha1/sites/{name}/status' in own.paths);
    assert.equal('/apis/hansa.dev/v1alpha1/roles/{name}/status' in own.paths, false);
  });
});

test('the index names each document with a hash that changes with it', () => {
  const index = (kinds: typeof allKinds): Readonly<Record<string, { serverRelativeURL: string }>> =>
    openApiIndex(openApiDocuments(createRegistry(kinds)))['paths'] as never;
  const key = 'apis/hansa.dev/v1alpha1';
  const before = index(allKinds)[key]?.serverRelativeURL ?? '';
  assert.match(before, /^\/openapi\/v3\/apis\/hansa\.dev\/v1alpha1\?hash=[0-9A-F]{64}$/);
  assert.equal(index(allKinds)[key]?.serverRelativeURL, before);
  assert.notEqual(index([{ ...roleKind, description: 'Other.' }])[key]?.serverRelativeURL, before);
});
