import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { crdOf } from '../../api/documents/crd.ts';
import { syncedKinds } from '../../api/kinds/synced-kinds.ts';
import { createRegistry } from '../../api/registry.ts';
import { clusterSideKind } from './cluster-side-kind.ts';

describe('a kind as a marked cluster stores it', () => {
  for (const [name, kind] of Object.entries(syncedKinds)) {
    test(`has no defaults, and room for the verdict and the claim of the site: ${name}`, () => {
      const crd = JSON.parse(JSON.stringify(crdOf(clusterSideKind(kind)))) as {
        readonly spec: {
          readonly versions: readonly [
            {
              readonly subresources?: object;
              readonly schema: {
                readonly openAPIV3Schema: {
                  readonly properties: { readonly status: { readonly properties: object } };
                };
              };
            },
          ];
        };
      };
      const [version] = crd.spec.versions;
      assert.deepEqual(version.subresources, { status: {} });
      const { status } = version.schema.openAPIV3Schema.properties;
      for (const field of ['conditions', 'syncedTo', ...Object.keys(kind.status?.fields ?? {})]) {
        assert.ok(Object.hasOwn(status.properties, field), field);
      }
      assert.doesNotMatch(JSON.stringify(crd), /"default":/);
    });
  }

  test('is a valid declaration, and leaves that of the site alone', () => {
    const before = JSON.stringify(Object.values(syncedKinds));
    createRegistry(Object.values(syncedKinds).map(clusterSideKind));
    assert.equal(JSON.stringify(Object.values(syncedKinds)), before);
  });
});
