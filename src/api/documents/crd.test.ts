import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crdOf } from './crd.ts';
import { federationKind } from '../kinds/federation.ts';
import { joinTokenKind } from '../kinds/join-token.ts';
import { nativeServiceKind } from '../kinds/native-service.ts';
import { roleBindingKind } from '../kinds/role-binding.ts';
import { siteKind } from '../kinds/site.ts';

// Whether kube-apiserver takes them is tested in test/interop, which installs them all.

interface Crd {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly scope: string;
    readonly names: Readonly<Record<string, unknown>>;
    readonly versions: readonly [
      {
        readonly schema: {
          readonly openAPIV3Schema: {
            readonly required?: readonly string[];
            readonly properties: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
          };
        };
        readonly subresources?: unknown;
        readonly selectableFields?: unknown;
        readonly additionalPrinterColumns: readonly {
          readonly name: string;
          readonly type: string;
        }[];
      },
    ];
  };
}

test('a kind becomes a cluster-scoped definition of its names, columns and selectable fields', () => {
  const crd = crdOf(roleBindingKind) as unknown as Crd;
  const [version] = crd.spec.versions;
  assert.equal(crd.metadata.name, 'rolebindings.hansa.dev');
  assert.equal(crd.spec.scope, 'Cluster');
  assert.deepEqual(crd.spec.names['categories'], ['hansa']);
  assert.deepEqual(version.selectableFields, [{ jsonPath: '.spec.role' }]);
  assert.deepEqual(
    version.additionalPrinterColumns.map((column) => column.name),
    ['Role', 'Subjects', 'Age'],
  );
  assert.deepEqual(version.schema.openAPIV3Schema.required, ['spec']);
  assert.equal(version.subresources, undefined);
});

test('what counts down to a date shows the date: kubectl would call one to come invalid', () => {
  const [version] = (crdOf(joinTokenKind) as unknown as Crd).spec.versions;
  const typeOf = (wanted: string) =>
    version.additionalPrinterColumns.find(({ name }) => name === wanted)?.type;
  assert.deepEqual([typeOf('Expires'), typeOf('Age')], ['string', 'date']);
});

test('rules become CEL, and list types stay', () => {
  const crd = crdOf(roleBindingKind) as unknown as Crd;
  const spec = crd.spec.versions[0].schema.openAPIV3Schema.properties['spec'];
  assert.deepEqual(spec?.['x-kubernetes-validations'], [
    {
      rule: 'self.role == oldSelf.role',
      message: 'role cannot be changed: delete the binding and create another',
    },
  ]);
  const properties = spec?.['properties'] as Record<string, Record<string, unknown>>;
  assert.equal(properties['subjects']?.['x-kubernetes-list-type'], 'map');
  assert.deepEqual(properties['subjects']?.['x-kubernetes-list-map-keys'], ['kind', 'name']);
});

test('a kind with a status has the status subresource', () => {
  const crd = crdOf(siteKind) as unknown as Crd;
  assert.deepEqual(crd.spec.versions[0].subresources, { status: {} });
  assert.equal(crd.spec.versions[0].schema.openAPIV3Schema.required, undefined);
});

test('a kind in clusters has its own group and scope, and a rule for its only name', () => {
  const native = crdOf(nativeServiceKind) as unknown as Crd;
  assert.equal(native.metadata.name, 'nativeservices.clusters.hansa.dev');
  assert.equal(native.spec.scope, 'Namespaced');
  const [version] = (crdOf(federationKind) as unknown as Crd).spec.versions;
  assert.deepEqual(
    (version.schema.openAPIV3Schema as Record<string, unknown>)['x-kubernetes-validations'],
    [
      {
        rule: "self.metadata.name == 'federation'",
        message: 'the only Federation of a cluster has the name federation',
      },
    ],
  );
});

test('a kind without short names has no empty list of them, which the API server would drop', () => {
  const crd = crdOf(federationKind) as unknown as Crd;
  assert.equal('shortNames' in crd.spec.names, false);
});
