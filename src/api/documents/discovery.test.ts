import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { aggregatedDiscovery, discoveryDocuments, verbsOf } from './discovery.ts';
import { roleBindingKind } from '../kinds/role-binding.ts';
import { roleKind } from '../kinds/role.ts';
import { siteKind } from '../kinds/site.ts';
import { createRegistry } from '../registry.ts';

const registry = createRegistry([siteKind, roleKind, roleBindingKind]);

interface Resources {
  readonly resources: readonly { readonly name: string; readonly verbs: readonly string[] }[];
}

suite('discovery', () => {
  test('has a document for each step from the root to the resources', () => {
    assert.deepEqual(
      [...discoveryDocuments(registry).keys()],
      [
        '/api',
        '/apis',
        '/apis/hansa.dev',
        '/apis/hansa.dev/v1alpha1',
        '/apis/authentication.k8s.io',
        '/apis/authentication.k8s.io/v1',
        '/apis/authentication.k8s.io/v1beta1',
        '/apis/authorization.k8s.io',
        '/apis/authorization.k8s.io/v1',
      ],
    );
  });

  test('lists each kind, and the status of those that have one', () => {
    const document = discoveryDocuments(registry).get(
      '/apis/hansa.dev/v1alpha1',
    ) as unknown as Resources;
    assert.deepEqual(
      document.resources.map((resource) => resource.name),
      ['sites', 'sites/status', 'roles', 'rolebindings'],
    );
  });

  test('tells that a singleton is neither made nor deleted', () => {
    assert.deepEqual([...verbsOf(siteKind)].toSorted(), [
      'get',
      'list',
      'patch',
      'update',
      'watch',
    ]);
    assert.equal(verbsOf(roleKind).length, 8);
  });

  test('offers the reviews by which a caller asks about itself', () => {
    const path = '/apis/authorization.k8s.io/v1';
    const document = discoveryDocuments(registry).get(path) as unknown as Resources;
    assert.deepEqual(
      document.resources.map(({ name, verbs }) => [name, verbs]),
      [
        ['selfsubjectaccessreviews', ['create']],
        ['selfsubjectrulesreviews', ['create']],
      ],
    );
  });

  test('says the same in its aggregated form', () => {
    const documents = aggregatedDiscovery(registry);
    assert.deepEqual([...documents.keys()], ['/api', '/apis']);
    const { items } = documents.get('/apis') as unknown as {
      readonly items: readonly {
        readonly metadata: { readonly name: string };
        readonly versions: readonly {
          readonly resources: readonly {
            readonly resource: string;
            readonly subresources?: unknown[];
          }[];
        }[];
      }[];
    };
    assert.deepEqual(
      items.map((item) => item.metadata.name),
      ['hansa.dev', 'authentication.k8s.io', 'authorization.k8s.io'],
    );
    const own = items[0]?.versions[0]?.resources ?? [];
    assert.deepEqual(
      own.map((resource) => [resource.resource, resource.subresources?.length ?? 0]),
      [
        ['sites', 1],
        ['roles', 0],
        ['rolebindings', 0],
      ],
    );
  });
});
