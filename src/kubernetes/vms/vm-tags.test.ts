import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { serviceTags } from '../names.ts';
import { isServiceName } from '../services/federated-name.ts';
import { machine } from './test-machines.ts';
import { federationOfVm, nameOfID, serviceOfVm } from './vm-tags.ts';

const serviceFor = (tags: Readonly<Record<string, string>>, id?: string) =>
  serviceOfVm(machine('web-1', { tags, ...(id !== undefined && { id }) }), 'hansa-system');

const reasonOf = (found: unknown): unknown => (found as { readonly reason?: string }).reason;

describe('the tag of a machine', () => {
  test('names its Service in each spelling of the domain', () => {
    assert.ok(serviceTags.includes('svc.antreaplus.vmware.com'));
    for (const key of serviceTags) assert.equal(serviceFor({ [key]: 'web' }), 'web');
  });

  test('may be there twice with one value, and not with two', () => {
    assert.equal(serviceFor({ 'svc.hansa.dev': 'web', 'svc.antreaplus.vmware.com': 'web' }), 'web');
    for (const other of ['shop', '']) {
      const found = serviceFor({ 'svc.hansa.dev': 'web', 'svc.antreaplus.vmware.com': other });
      assert.equal(reasonOf(found), 'ConflictingTags');
    }
  });

  test('is missing where no tag of the machine has one of its keys', () => {
    assert.equal(serviceFor({}), undefined);
    assert.equal(serviceFor({ 'svc.example.com': 'web', svc: 'web' }), undefined);
  });

  test('must be the name of a Service', () => {
    for (const name of ['Web', 'web.shop', '1web', '-web', 'web-', 'w b', 'w'.repeat(64), 'wéb']) {
      assert.equal(reasonOf(serviceFor({ 'svc.hansa.dev': name })), 'IllegalName', name);
    }
  });

  test('means nothing in the namespace of the copies', () => {
    assert.equal(reasonOf(serviceOfVm(machine('a'), 'shop')), 'SystemNamespace');
  });

  test('is derived from the ID where it is empty, and from the name where there is no ID', () => {
    assert.equal(serviceFor({ 'svc.hansa.dev': '' }, 'i-0a1b2c3d4e5f67890'), 'i-0a1b2c3d4e5f67890');
    assert.equal(serviceFor({ 'svc.hansa.dev': '' }), 'web-1');
  });
});

describe('the name that follows from an ID', () => {
  test('says what the ID was', () => {
    assert.match(
      nameOfID('/subscriptions/42/virtualMachines/Web_1'),
      /^vm-subscriptions-42-virtualmachines-web-1-[0-9a-f]{10}$/,
    );
    assert.match(nameOfID('…'), /^vm-[0-9a-f]{10}$/);
    assert.match(nameOfID('4711'), /^vm-4711-[0-9a-f]{10}$/);
  });

  test('is legal for each ID, and always the same', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1, maxLength: 300, unit: 'binary' }), (id) => {
        assert.ok(isServiceName(nameOfID(id)), nameOfID(id));
        assert.equal(nameOfID(id), nameOfID(id));
      }),
    );
  });

  test('differs for different IDs, also for those that differ in case or look like a derived name', () => {
    const part = fc.constantFrom('a', 'A', '-', '_', '/', 'web', '0123456789', '.');
    const id = fc.array(part, { minLength: 1, maxLength: 8 }).map((parts) => parts.join(''));
    fc.assert(
      fc.property(id, id, (one, two) => {
        fc.pre(one !== two);
        assert.notEqual(nameOfID(one), nameOfID(two));
        assert.notEqual(nameOfID(nameOfID(`${one}!`)), nameOfID(`${one}!`));
      }),
    );
  });
});

describe('the federated Service in the tags of a machine', () => {
  const federation = (tags: Readonly<Record<string, string>>) =>
    federationOfVm(machine('web-1', { tags }), 'web', 'hansa-system');

  test('is global, or in the namespace of the machine', () => {
    assert.deepEqual(federation({ 'svc.global.federated.antreaplus.vmware.com': 'all' }), {
      scope: 'global',
      namespace: 'hansa-system',
      name: 'all',
    });
    assert.deepEqual(federation({ 'svc.federated.hansa.dev': 'all' }), {
      scope: 'namespaced',
      namespace: 'shop',
      name: 'all',
    });
    assert.equal(federation({}), undefined);
  });

  test('must be one, with a legal name, and not that of the Service itself', () => {
    const both = { 'svc.federated.hansa.dev': 'a', 'svc.global.federated.hansa.dev': 'a' };
    assert.equal(reasonOf(federation(both)), 'ConflictingAnnotations');
    assert.equal(reasonOf(federation({ 'svc.federated.hansa.dev': 'A' })), 'IllegalName');
    assert.equal(reasonOf(federation({ 'svc.federated.hansa.dev': 'web' })), 'NameOfService');
  });
});
