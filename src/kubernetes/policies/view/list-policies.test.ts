import assert from 'node:assert/strict';
import { beforeEach, suite, test } from 'node:test';
import {
  copyAnnotation,
  epochAnnotation,
  managedByLabel,
  manager,
  originKey,
  policyAnnotation,
} from '../../names.ts';
import { entityLabels, type ExternalEntity } from '../../entities/compile-external-entities.ts';
import type { EndpointSlice, Service } from '../../objects.ts';
import { countPolicies } from './count-policies.ts';
import { findPolicy, listPolicies } from './list-policies.ts';
import { type PolicyMember, viewOf } from '../policy-member.ts';
import { keyOfPolicy, type PolicyRef } from '../policy-ref.ts';
import { emptyRecord } from '../policy-version.ts';
import { optionsOf, TestPolicyMember } from './test-policy-members.ts';
import { ago, record } from '../test-policy-views.ts';

const web: PolicyRef = {
  group: 'networking.k8s.io',
  plural: 'networkpolicies',
  namespace: 'shop',
  name: 'web',
};
const key = keyOfPolicy(web);
const other = 'f'.repeat(64);

const policy = (spec: object = { podSelector: {} }, more: object = {}): object => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: {
    name: 'web',
    namespace: 'shop',
    uid: 'uid',
    resourceVersion: '10',
    annotations: { [policyAnnotation]: 'true' },
    ...more,
  },
  spec,
});

let [a, b, c] = [new TestPolicyMember('a'), new TestPolicyMember('b'), new TestPolicyMember('c')];
beforeEach(() => {
  [a, b, c] = [
    new TestPolicyMember('a', 'shop'),
    new TestPolicyMember('b', 'shop'),
    new TestPolicyMember('c', 'shop'),
  ];
});

const options = () => optionsOf(c, a, b);
const reasons = () =>
  findPolicy(key, options())?.clusters.map(({ clusterID, status, reason }) => [
    clusterID,
    status,
    reason,
  ]);

/** The version of a minute ago, which a user made in a. */
function replicate(...members: readonly TestPolicyMember[]): string {
  let hash = '';
  for (const member of members) {
    hash = member.put(web, policy());
    member.record(web, record({ versionHash: hash }), { status: 'True', reason: 'Replicated' });
  }
  return hash;
}

suite('what a site knows of a federated policy', () => {
  test('is that its kind has another scope in the setting', () => {
    const metadata = { name: 'web', annotations: { [policyAnnotation]: 'true' } };
    const wide: PolicyRef = { ...web, namespace: '' };
    a.put(wide, { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', metadata });
    const { clusters = [] } = findPolicy(keyOfPolicy(wide), options()) ?? {};
    assert.deepEqual(new Set(clusters.map(({ reason }) => reason)), new Set(['WrongScope']));
    assert.match(clusters[0]?.message ?? '', /no namespace.*add :cluster to this entry/);
    replicate(a, b, c);
    assert.deepEqual(reasons()?.[0], ['a', 'True', 'Replicated']);
  });

  test('is its newest version, and that all clusters have it', () => {
    const hash = replicate(a, b, c);
    const view = findPolicy(key, options());
    assert.deepEqual(
      [view?.kind, view?.namespace, view?.name, view?.state],
      ['NetworkPolicy', 'shop', 'web', 'Live'],
    );
    assert.deepEqual(view?.version, {
      origin: 'a',
      edited: '2027-01-15T07:59:00Z',
      stamp: ago(60),
      hash,
    });
    assert.deepEqual(reasons(), [
      ['a', 'True', 'Replicated'],
      ['b', 'True', 'Replicated'],
      ['c', 'True', 'Replicated'],
    ]);
  });

  test('is why clusters have it not', () => {
    replicate(a);
    b.put(web, policy({}, { annotations: {} }));
    const missing = new TestPolicyMember('d');
    const away = new TestPolicyMember('e', 'shop');
    away.state = { ...away.state, state: 'Unreachable', reason: 'TimedOut', message: 'no answer' };
    const unserved = new TestPolicyMember('f', 'shop');
    const cache = unserved.policies.get('networkpolicies.networking.k8s.io');
    assert.ok(cache);
    cache.isServed = false;
    const unread = new TestPolicyMember('g', 'shop');
    unread.policyRecords.isServed = false;
    const found = findPolicy(key, optionsOf(a, b, c, missing, away, unserved, unread));
    assert.deepEqual(
      found?.clusters.map(({ status, reason }) => [status, reason]),
      [
        ['True', 'Replicated'],
        ['False', 'UserPolicyInTheWay'],
        ['False', 'Pending'],
        ['False', 'NamespaceMissing'],
        ['Unknown', 'TimedOut'],
        ['False', 'NotServed'],
        ['Unknown', 'NotFollowed'],
      ],
    );
    assert.match(found?.clusters[1]?.message ?? '', /without the annotation/);
  });

  test('is that a cluster has more policies than the site keeps, before and after they were read', () => {
    replicate(a, b);
    const failure = { reason: 'over-limit', message: 'the cluster has 100001 objects' };
    b.policyRecords.failure = failure;
    const unread = new TestPolicyMember('d', 'shop');
    unread.isRead = false;
    unread.policyRecords.failure = failure;
    const found = findPolicy(key, optionsOf(a, b, unread));
    for (const each of found?.clusters.slice(1) ?? []) {
      assert.deepEqual([each.status, each.reason], ['Unknown', 'TooMany']);
      assert.match(each.message, /100001 objects\. Delete policies/);
      assert.doesNotMatch(each.message, /cluster join/);
    }
  });

  test('is why the site does not follow a cluster', () => {
    replicate(a);
    const unread = new TestPolicyMember('d', 'shop');
    unread.isRead = false;
    const messageOf = (failure?: { reason: string; message: string }) => {
      unread.policyRecords.failure = failure;
      const found = findPolicy(key, optionsOf(a, unread))?.clusters[1];
      assert.deepEqual([found?.status, found?.reason], ['Unknown', 'NotFollowed']);
      return found?.message ?? '';
    };
    assert.match(messageOf(), /yet\.$/);
    assert.match(messageOf({ reason: 'forbidden', message: 'no' }), /hansa cluster join/);
    assert.match(messageOf({ reason: 'server', message: 'out of order' }), /: out of order$/);
  });

  test('is that its cluster spreads no more, in each cluster that does not have it', () => {
    const hash = replicate(b);
    const message = 'Other clusters get at most 3 policies of a';
    a.put(web, policy());
    a.record(web, record({ versionHash: hash }), { status: 'False', reason: 'TooMany', message });
    assert.deepEqual(reasons(), [
      ['a', 'False', 'TooMany'],
      ['b', 'True', 'Replicated'],
      ['c', 'False', 'TooMany'],
    ]);
    assert.equal(findPolicy(key, options())?.clusters[2]?.message, message);
  });

  test('is what the leader of a cluster told', () => {
    replicate(a);
    const message = 'The API server of this cluster rejects the newest version: no such field';
    b.record(web, emptyRecord, { status: 'False', reason: 'RejectedByServer', message });
    assert.deepEqual(reasons()?.[1], ['b', 'False', 'RejectedByServer']);
    assert.equal(findPolicy(key, options())?.clusters[1]?.message, message);
  });

  test('is that a server stores it in another way', () => {
    const hash = replicate(a);
    const stored = b.put(web, policy({ podSelector: {}, policyTypes: ['Ingress'] }));
    b.record(web, record({ versionHash: hash, storedHash: stored }));
    assert.deepEqual(reasons()?.[1], ['b', 'True', 'StoredDifferently']);
  });

  test('is an edit that is not recorded yet', () => {
    replicate(a, b, c);
    a.put(web, policy({ podSelector: { matchLabels: { app: 'web' } } }));
    assert.deepEqual(reasons()?.[0], ['a', 'False', 'Pending']);
  });

  test('is a deletion, and who has not followed it', () => {
    replicate(a, b);
    const deleted = { state: 'Deleted', stamp: ago(30, 'b'), versionHash: '' } as const;
    b.remove(web);
    b.record(web, record({ ...deleted, storedHash: '' }));
    const view = findPolicy(key, options());
    assert.equal(view?.state, 'Deleted');
    assert.equal(view?.version?.origin, 'b');
    assert.equal(view?.selection, undefined);
    assert.deepEqual(reasons(), [
      ['a', 'False', 'Pending'],
      ['b', 'True', 'Deleted'],
      ['c', 'True', 'Deleted'],
    ]);
  });

  test('is nothing where no cluster has a version that counts', () => {
    a.record(web, emptyRecord, { status: 'False', reason: 'TooLarge', message: 'too large' });
    a.put(web, policy());
    const view = findPolicy(key, options());
    assert.equal(view?.state, 'None');
    assert.equal(view?.version, undefined);
    assert.equal(view?.clusters[0]?.reason, 'TooLarge');
  });

  test('does not come from a forged record', () => {
    replicate(a, b, c);
    b.record(web, record({ versionHash: other, stamp: ago(-1_000_000, 'b') }));
    assert.equal(findPolicy(key, options())?.version?.origin, 'a');
  });

  for (const bad of ['', '/', 'x', 'secrets./a/b', 'pods.example.org/a/b', `${key}/x`]) {
    test(`is nothing under the key ${JSON.stringify(bad)}`, () => {
      replicate(a);
      assert.equal(findPolicy(bad, options()), undefined);
    });
  }
});

suite('the warning about a policy', () => {
  const copy = (name: string): Service => ({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name,
      namespace: 'shop',
      labels: { [managedByLabel]: manager },
      annotations: {
        [copyAnnotation]: name,
        [epochAnnotation]: '1',
        'dns.example/hostname': 'x.y',
      },
    },
    spec: {},
  });
  const slice: EndpointSlice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: 'api-1',
      namespace: 'shop',
      labels: { [managedByLabel]: manager, [originKey]: 'b' },
      annotations: { [epochAnnotation]: '1' },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name: 'api', uid: 'u' }],
    },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['10.1.0.5'] }],
  };
  const selectionOf = (ref: PolicyRef, spec: object) => {
    const hash = a.put(ref, policy(spec));
    a.record(ref, record({ versionHash: hash }));
    return findPolicy(keyOfPolicy(ref), options())?.selection?.reason;
  };
  const antrea = { ...web, group: 'crd.antrea.io' };
  const fromBlock = (cidr: string) => ({ ingress: [{ from: [{ ipBlock: { cidr } }] }] });
  beforeEach(() => {
    b.services.put(copy('api'));
    b.slices.put(slice);
  });

  test('is about one that selects pods only', () => {
    const spec = { ingress: [{ from: [{ podSelector: {} }] }] };
    assert.equal(selectionOf(web, spec), 'OnlyLocalPeers');
  });

  test('is not about one that selects an address of a federated Service', () => {
    assert.equal(selectionOf(web, fromBlock('10.1.0.0/16')), 'Selected');
    assert.equal(selectionOf(web, fromBlock('10.2.0.0/16')), 'OnlyLocalPeers');
  });

  test('is not about one that names a federated Service, or its DNS name', () => {
    assert.equal(selectionOf(antrea, { egress: [{ toServices: [{ name: 'api' }] }] }), 'Selected');
    assert.equal(selectionOf(antrea, { egress: [{ to: [{ fqdn: 'X.y' }] }] }), 'Selected');
  });

  suite('that selects ExternalEntities', () => {
    const externalEntitySelector = { matchLabels: { [copyAnnotation]: 'api', [originKey]: 'b' } };
    const spec = { ingress: [{ from: [{ externalEntitySelector }] }] };
    const entity = (annotations: Readonly<Record<string, string>>): ExternalEntity => ({
      apiVersion: 'crd.antrea.io/v1alpha2',
      kind: 'ExternalEntity',
      metadata: {
        name: 'api-1',
        namespace: 'shop',
        labels: entityLabels('api', 'b'),
        annotations,
      },
      spec: {},
    });

    test('is not there if sites wrote them', () => {
      b.externalEntities.put(entity({ [epochAnnotation]: '1' }));
      assert.equal(selectionOf(antrea, spec), 'Selected');
    });

    test('is there if no site did', () => {
      assert.equal(selectionOf(antrea, spec), 'OnlyLocalPeers');
      b.externalEntities.put(entity({}));
      assert.equal(selectionOf(antrea, spec), 'OnlyLocalPeers');
    });

    test('is there if the cluster does not serve them any more', () => {
      b.externalEntities.put(entity({ [epochAnnotation]: '1' }));
      b.externalEntities.isServed = false;
      assert.equal(selectionOf(antrea, spec), 'OnlyLocalPeers');
    });
  });

  test('is about one that names the member Service, which is local', () => {
    b.services.put({ ...copy('own'), metadata: { name: 'own', namespace: 'shop' } });
    const spec = { egress: [{ toServices: [{ name: 'own' }] }] };
    assert.equal(selectionOf(antrea, spec), 'OnlyLocalPeers');
  });
});

suite('the list of federated policies', () => {
  test('has pages that contain each one once, in order, of all kinds', () => {
    const names = ['e', 'a', 'd', 'b', 'c'];
    for (const name of names) {
      a.put({ ...web, name }, policy({}, { name }));
      b.record({ ...web, name }, record({ versionHash: other }));
    }
    a.put({ ...web, group: 'crd.antrea.io' }, policy());
    const pages: string[][] = [];
    let after: string | undefined = '';
    while (after !== undefined) {
      const page = listPolicies(options(), { after, limit: 2 });
      pages.push(page.policies.map(({ group, name }) => `${group}/${name}`));
      after = page.last;
    }
    const own = (name: string): string => `networking.k8s.io/${name}`;
    assert.deepEqual(pages, [
      ['crd.antrea.io/web', own('a')],
      [own('b'), own('c')],
      [own('d'), own('e')],
    ]);
    assert.deepEqual(listPolicies(options(), { after: 'zzz' }).policies, []);
    const found = listPolicies(options(), { name: 'shop/web' }).policies;
    assert.deepEqual(
      found.map(({ group }) => group),
      ['crd.antrea.io'],
    );
    assert.deepEqual(listPolicies(options(), { name: 'web' }).policies, []);
  });

  test('leaves out policies without the annotation', () => {
    a.put(web, policy({}, { annotations: {} }));
    assert.deepEqual(listPolicies(options()), { policies: [], last: undefined });
    assert.equal(findPolicy(key, options()), undefined);
  });
});

test('the policies of a member are counted by what its leader told', () => {
  replicate(a);
  const named = (name: string): PolicyRef => ({ ...web, name });
  const no = (reason: string) => ({ status: 'False', reason });
  a.record(named('x'), emptyRecord, no('UserPolicyInTheWay'));
  a.record(named('y'), record({ versionHash: other }), no('NoSource'));
  a.record(named('z'), record({ versionHash: other }));
  a.record(named('n'), record({ versionHash: other }), no('NamespaceMissing'));
  const deleted = { state: 'Deleted', versionHash: '', storedHash: '' } as const;
  a.record(named('d'), record(deleted), { status: 'True', reason: 'Deleted' });
  assert.deepEqual(countPolicies(a.policyRecords.objects()), {
    replicated: 1,
    conflicts: 1,
    pending: 2,
  });
});

function readiness(change: (member: TestPolicyMember) => void): boolean {
  const member = new TestPolicyMember('a', 'shop');
  change(member);
  const { now, settings } = optionsOf(member);
  return viewOf(member as unknown as PolicyMember, web, now, settings.retentionMs).isReady;
}

test('nothing is decided about what a member lacks while it is not followed', () => {
  assert.ok(readiness(() => {}));
  for (const reason of ['over-limit', 'forbidden']) {
    const failure = { reason, message: '' };
    assert.ok(!readiness((member) => Object.assign(member.policyRecords, { failure })), reason);
    assert.ok(
      !readiness(({ policies }) => {
        for (const cache of policies.values()) Object.assign(cache, { failure });
      }),
      reason,
    );
  }
  assert.ok(!readiness((member) => Object.assign(member.policyRecords, { isServed: false })));
});

test('a member that does not serve a kind, or whose watch was lost for a moment, is followed', () => {
  assert.ok(
    readiness(({ policies }) => {
      for (const cache of policies.values()) cache.isServed = false;
    }),
  );
  const failure = { reason: 'silent', message: '' };
  assert.ok(readiness((member) => Object.assign(member.policyRecords, { failure })));
});
