import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { hasCode } from '../core/errors/error.ts';
import { roleKind } from './kinds/role.ts';
import { roleBindingKind } from './kinds/role-binding.ts';
import { siteKind } from './kinds/site.ts';
import { apiVersion } from './object.ts';
import { finalizerWarnings } from './metadata/metadata-rules.ts';
import { dropDuplicateOwners } from './metadata/owner-references.ts';
import {
  defaultObject,
  fieldAt,
  objectSchema,
  pruneObject,
  strictlyRefused,
  type Untyped,
  validateObject,
  validateStatus,
} from './resource-schema.ts';
import { type FieldError, invalidObject } from './schema/field-error.ts';

const role = (metadata: object, spec: unknown = { rules: [] }): Untyped => ({
  apiVersion,
  kind: 'Role',
  metadata,
  spec,
});
const lines = (errors: readonly FieldError[]): string[] =>
  errors.map((error) => `${error.field}: ${error.message}`);

/** Causes in changed metadata are listed again and again, as kube-apiserver does. */
const distinct = (errors: readonly FieldError[]): string[] => [...new Set(lines(errors))];

suite('the schema of an object', () => {
  test('has type, metadata, spec and status, and is one value a kind', () => {
    assert.deepEqual(Object.keys(objectSchema(siteKind).fields), [
      'apiVersion',
      'kind',
      'metadata',
      'spec',
      'status',
    ]);
    assert.equal('status' in objectSchema(roleKind).fields, false);
    assert.equal(objectSchema(roleKind), objectSchema(roleKind));
  });

  test('leads to the schema of each field', () => {
    assert.equal(fieldAt(roleBindingKind, 'spec.role')?.type, 'string');
    assert.equal(fieldAt(roleBindingKind, 'metadata.name')?.type, 'string');
    assert.equal(fieldAt(roleBindingKind, 'spec.role.x'), undefined);
    assert.equal(fieldAt(roleBindingKind, 'spec.toString'), undefined);
  });
});

suite('pruning an object', () => {
  test('names unknown fields, those of metadata first', () => {
    const { object, unknown } = pruneObject(roleKind, {
      ...role({ name: 'a', odd: 1 }, { rules: [{ kinds: ['*'], x: 1 }], also: 1 }),
      status: {},
    });
    assert.deepEqual(unknown, ['metadata.odd', 'spec.also', 'spec.rules[0].x', 'status']);
    assert.deepEqual(object, role({ name: 'a' }, { rules: [{ kinds: ['*'] }] }));
  });

  test('refuses metadata of a wrong type with the sentence of kube-apiserver', () => {
    assert.throws(
      () => pruneObject(roleKind, role({ name: 5 })),
      (error: unknown) =>
        hasCode(error, 'HANSA_BAD_REQUEST') &&
        error.message ===
          'Role in version "v1alpha1" cannot be handled as a Role: json: cannot unmarshal number into Go struct field ObjectMeta.name of type string',
    );
  });

  test('has a refusal for strict requests', () => {
    assert.equal(
      strictlyRefused(roleKind, ['unknown field "spec.a"', 'unknown field "spec.b"']).message,
      'Role in version "v1alpha1" cannot be handled as a Role: strict decoding error: unknown field "spec.a", unknown field "spec.b"',
    );
  });

  test('gives back the same object where there is nothing to prune', () => {
    const object = role({ name: 'a' });
    assert.equal(pruneObject(roleKind, object).object, object);
    assert.equal(defaultObject(roleKind, object), object);
  });
});

suite('a new object', () => {
  test('of another kind or version is refused for that alone', () => {
    assert.deepEqual(
      lines(validateObject(roleKind, { kind: 'Site', apiVersion: 'v1', metadata: 5 })),
      [
        'kind: Invalid value: "Site": must be Role',
        'apiVersion: Invalid value: "v1": must be hansa.dev/v1alpha1',
      ],
    );
  });

  test('needs a name', () => {
    assert.deepEqual(lines(validateObject(roleKind, role({}))), [
      'metadata.name: Required value: name or generateName is required',
    ]);
  });

  test('has every error of its metadata and its spec at once', () => {
    const errors = validateObject(
      roleKind,
      role({ name: 'A', namespace: 'x' }, { rules: [{ kinds: 'Role', verbs: ['peek'] }] }),
    );
    assert.deepEqual(
      errors.map((error) => [error.type, error.field]),
      [
        ['FieldValueInvalid', 'metadata.name'],
        ['FieldValueForbidden', 'metadata.namespace'],
        ['FieldValueTypeInvalid', 'spec.rules[0].kinds'],
        ['FieldValueNotSupported', 'spec.rules[0].verbs[0]'],
      ],
    );
  });

  test('must have its spec where the kind says so', () => {
    const { spec: _, ...bare } = role({ name: 'a' });
    assert.deepEqual(lines(validateObject(roleKind, bare)), ['spec: Required value']);
  });

  test('of a singleton has the only name', () => {
    const site = (name: string): Untyped => ({ apiVersion, kind: 'Site', metadata: { name } });
    assert.deepEqual(validateObject(siteKind, site('site')), []);
    assert.deepEqual(lines(validateObject(siteKind, site('other'))), [
      'metadata.name: Invalid value: "other": must be "site": there is only one Site',
    ]);
  });

  test('of a kind that is named by trust domains may have an underscore in its name', () => {
    const kind = { ...roleKind, names: 'trust-domain' as const };
    assert.deepEqual(validateObject(kind, role({ name: 'a_b.example' })), []);
    assert.deepEqual(lines(validateObject(kind, role({ name: 'a/b' }))), [
      'metadata.name: Invalid value: "a/b": must be a trust domain: it may only have lower-case letters, digits, dots, dashes and underscores',
    ]);
    assert.equal(validateObject(roleKind, role({ name: 'a_b.example' })).length, 1);
  });

  test('has at most 256 KiB of annotations', () => {
    const annotations = { a: 'x'.repeat(256 * 1024) };
    assert.deepEqual(lines(validateObject(roleKind, role({ name: 'a', annotations }))), [
      'metadata.annotations: Too long: may not be more than 262144 bytes',
    ]);
  });
});

suite('a changed object', () => {
  const old = role({
    name: 'a',
    uid: 'u',
    resourceVersion: '1',
    generation: 2,
    creationTimestamp: '2026-01-02T03:04:05Z',
  });
  const metadata = old['metadata'] as object;

  test('keeps what cannot be changed', () => {
    const changed = role({ name: 'b', uid: 'v', resourceVersion: '1', generation: 2 });
    assert.deepEqual(distinct(validateObject(roleKind, changed, old)), [
      'metadata.name: Invalid value: "b": field is immutable',
      'metadata.uid: Invalid value: "v": field is immutable',
      'metadata.creationTimestamp: Invalid value: null: field is immutable',
    ]);
  });

  test('says which version it changes, and does not go back', () => {
    const changed = role({ ...metadata, resourceVersion: '', generation: 1 });
    assert.deepEqual(distinct(validateObject(roleKind, changed, old)), [
      'metadata.resourceVersion: Invalid value: "": must be specified for an update',
      'metadata.generation: Invalid value: 1: must not be decremented',
    ]);
  });

  test('gets no new finalizers while it is being deleted', () => {
    const dying = { ...metadata, deletionTimestamp: '2026-01-02T03:04:05Z', finalizers: ['a/b'] };
    const changed = role({ ...dying, finalizers: ['c/d', 'a/b', 'b/c'] });
    assert.deepEqual(distinct(validateObject(roleKind, changed, role(dying))), [
      'metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"b/c", "c/d"}',
    ]);
    assert.deepEqual(validateObject(roleKind, role({ ...dying, finalizers: [] }), role(dying)), []);
  });

  test('of a role binding keeps its role', () => {
    const binding = (name: string): Untyped => ({
      apiVersion,
      kind: 'RoleBinding',
      metadata,
      spec: { role: name, subjects: [] },
    });
    assert.deepEqual(lines(validateObject(roleBindingKind, binding('viewer'), binding('admin'))), [
      'spec: Invalid value: role cannot be changed: delete the binding and create another',
    ]);
  });
});

test('errors of a changed status are named from the root, and worded from the status', () => {
  const old = { apiVersion, kind: 'Site', metadata: { name: 'site', resourceVersion: '1' } };
  const status = { version: 5, conditions: [{ type: 'Ready' }], startedAt: 'x' };
  const errors = lines(validateStatus(siteKind, { ...old, status }, old));
  assert.deepEqual(errors.slice(0, 2), [
    'status.version: Invalid value: "integer": version in body must be of type string: "integer"',
    'status.startedAt: Invalid value: "x": startedAt in body must be of type date-time: "x"',
  ]);
  assert.ok(errors.includes('status.conditions[0].status: Required value'));
  assert.deepEqual(lines(validateStatus(siteKind, { ...old, status: 5 }, old)), [
    'status: Invalid value: "integer":  in body must be of type object: "integer"',
  ]);
});

test('an invalid object is refused in one sentence, with a cause for each field', () => {
  const errors = validateObject(roleKind, role({ name: 'a' }, { rules: 5, x: 1 }));
  const error = invalidObject({ group: 'hansa.dev', kind: 'Role', name: 'a' }, errors);
  assert.equal(error.code, 'HANSA_INVALID');
  assert.equal(
    error.message,
    'Role.hansa.dev "a" is invalid: spec.rules: Invalid value: "integer": spec.rules in body must be of type array: "integer"',
  );
  assert.deepEqual(error.details?.causes, [
    {
      reason: 'FieldValueTypeInvalid',
      message: 'Invalid value: "integer": spec.rules in body must be of type array: "integer"',
      field: 'spec.rules',
    },
  ]);
});

test('owner references that are there twice are dropped with a warning', () => {
  const owner = { apiVersion: 'v1', kind: 'A', name: 'b', uid: 'c' };
  const other = { ...owner, controller: true };
  const { object, warning } = dropDuplicateOwners(role({ ownerReferences: [owner, other, owner] }));
  assert.deepEqual(object, role({ ownerReferences: [owner, other] }));
  assert.match(warning ?? '', /duplicate UID\(s\) observed: c$/);
  assert.equal(dropDuplicateOwners(object).warning, undefined);
});

test('new finalizers without a domain are warned of', () => {
  assert.deepEqual(
    finalizerWarnings({ finalizers: ['x', 'a.b', 'a.b/c', 'orphan', 'y'] }, { finalizers: ['y'] }),
    [
      'metadata.finalizers: "a.b": prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers',
      'metadata.finalizers: "x": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers',
    ],
  );
});
