import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { joinTokenKind } from '../../api/kinds/join-token.ts';
import { roleKind } from '../../api/kinds/role.ts';
import { roleBindingKind } from '../../api/kinds/role-binding.ts';
import { siteKind } from '../../api/kinds/site.ts';
import { spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import type { JsonObject } from '../../api/object.ts';
import type { Kind } from '../../api/kind.ts';
import { personCaller, socketOwner } from '../../core/access/identity.ts';
import { clusterOriginKey, originOf } from '../../core/access/origin.ts';
import type { SyncedObject } from '../../core/plane/synced-resources.ts';
import type { ObjectDraft } from './object-of.ts';
import { codeOf, type SyncedSite, syncedSite } from './test-synced-site.ts';

const all = ['create', 'patch', 'delete'];
const federations = { kinds: ['SPIFFEFederation'], verbs: all };

const source = (uid = 'u1') => ({ uid, definition: 'd1', version: '7' });

const federation = (changes: Partial<SyncedObject> = {}): SyncedObject => ({
  kind: spiffeFederationKind,
  name: 'bruges.example',
  labels: { team: 'a' },
  spec: { bundleSource: { static: { bundle: '{"keys":[]}' } } },
  source: source(),
  ...changes,
});

const objectOf = (kind: Kind, name: string, spec: JsonObject): SyncedObject => ({
  kind,
  name,
  labels: {},
  spec,
  source: source(),
});

const specIn = (site: SyncedSite, name = 'bruges.example') =>
  site.get(spiffeFederationKind, name)?.spec as
    | { readonly quarantined?: boolean; readonly staleAfterSeconds?: number }
    | undefined;

async function allowed() {
  const site = await syncedSite();
  await site.allow('app1', federations);
  return { site, app1: site.synced('app1') };
}

describe('an object of a cluster', () => {
  test('is created at the site with its origin, defaults, and the cluster as the actor', async () => {
    const { site, app1 } = await allowed();
    const made = await app1.apply(federation(), undefined);
    assert.equal(made.metadata.name, 'bruges.example');
    const stored = site.get(spiffeFederationKind, 'bruges.example') as ObjectDraft;
    assert.deepEqual(stored.metadata.labels, { team: 'a', [clusterOriginKey]: 'app1' });
    assert.deepEqual(originOf(stored.metadata), { cluster: 'app1', source: source() });
    assert.equal(specIn(site)?.staleAfterSeconds, 3600);
    const [manager] = stored.metadata.managedFields ?? [];
    assert.equal(manager?.manager, 'cluster:app1');
    const record = site.drafts.at(-1);
    assert.deepEqual(
      [record?.actor.user, record?.actor.via, record?.verb, record?.outcome],
      ['cluster:app1', 'cluster', 'spiffe.federation.create', 'allow'],
    );
  });

  test('is written once, whatever its version in the cluster is', async () => {
    const { site, app1 } = await allowed();
    await app1.apply(federation(), undefined);
    const { revision } = site.store;
    await site.clock.advance(60_000);
    await app1.apply(federation({ source: { ...source(), version: '99' } }), undefined);
    assert.equal(site.store.revision, revision);
  });

  test('changes with the cluster, which wins over others for the fields that it sets', async () => {
    const { site, app1 } = await allowed();
    await app1.apply(federation(), undefined);
    const client = site.resources(spiffeFederationKind);
    await client.patchSpec(
      'bruges.example',
      (current) => ({
        ...(current.spec as object),
        quarantined: true,
        bundleSource: { static: { bundle: '{"keys":[1]}' } },
      }),
      { controller: 'operator' },
    );
    await app1.apply(federation({ labels: {} }), undefined);
    const stored = site.get(spiffeFederationKind, 'bruges.example');
    assert.deepEqual(specIn(site), {
      bundleSource: { static: { bundle: '{"keys":[]}' } },
      quarantined: true,
      staleAfterSeconds: 3600,
    });
    assert.deepEqual(stored?.metadata.labels, { [clusterOriginKey]: 'app1' });
  });

  test('cannot name another origin than its own', async () => {
    const { site, app1 } = await allowed();
    await app1.apply(federation({ labels: { [clusterOriginKey]: 'app2' } }), undefined);
    const { metadata } = site.get(spiffeFederationKind, 'bruges.example') as ObjectDraft;
    assert.equal(originOf(metadata)?.cluster, 'app1');
  });

  test('never replaces an object of the site or of another cluster', async () => {
    const { site, app1 } = await allowed();
    await site.allow('app2', federations);
    const app2 = site.synced('app2');
    await site.put(spiffeFederationKind, { name: 'bruges.example', spec: federation().spec });
    await app2.apply(federation({ name: 'ghent.example' }), undefined);
    const { revision } = site.store;
    assert.equal(await codeOf(app1.apply(federation(), undefined)), 'HANSA_ALREADY_EXISTS');
    const other = federation({ name: 'ghent.example' });
    assert.equal(await codeOf(app1.apply(other, undefined)), 'HANSA_ALREADY_EXISTS');
    await app1.remove(spiffeFederationKind, 'bruges.example', 'u1', undefined);
    await app1.remove(spiffeFederationKind, 'ghent.example', 'u1', undefined);
    await app1.keep(spiffeFederationKind, 'ghent.example', 'u1', undefined);
    assert.equal(site.store.revision, revision);
  });

  test('is validated, and fields that the kind does not have are refused', async () => {
    const { site, app1 } = await allowed();
    const bad: readonly Partial<SyncedObject>[] = [
      { spec: {} },
      { spec: undefined },
      { spec: { bundleSource: {} } },
      { name: 'Not_A_Domain!' },
      { labels: { 'bad key!': 'x' } },
      { spec: { bundleSource: { static: { bundle: '{}' } }, color: 'red' } },
      { spec: { bundleSource: { static: { bundle: 5 } } } },
    ];
    for (const changes of bad) {
      const code = await codeOf(app1.apply(federation(changes), undefined));
      assert.match(
        code ?? '',
        /^HANSA_(INVALID|APPLY_MISMATCH|BAD_REQUEST)$/,
        JSON.stringify(changes),
      );
    }
    assert.equal(site.store.count('spiffefederations'), 0);
  });

  test('that is deleted in the cluster is deleted if the UID is that of its origin', async () => {
    const { site, app1 } = await allowed();
    await app1.apply(federation(), undefined);
    await app1.remove(spiffeFederationKind, 'bruges.example', 'u2', undefined);
    assert.ok(site.get(spiffeFederationKind, 'bruges.example'));
    await app1.remove(spiffeFederationKind, 'bruges.example', 'u1', undefined);
    assert.equal(site.get(spiffeFederationKind, 'bruges.example'), undefined);
    await app1.remove(spiffeFederationKind, 'bruges.example', 'u1', undefined);
    assert.equal(site.drafts.at(-1)?.verb, 'spiffe.federation.delete');
  });

  test('that is kept has no source, cannot be removed, and goes on with the next apply', async () => {
    const { site, app1 } = await allowed();
    const origin = () => originOf(site.get(spiffeFederationKind, 'bruges.example')?.metadata ?? {});
    await app1.apply(federation(), undefined);
    await app1.keep(spiffeFederationKind, 'bruges.example', 'u1', undefined);
    assert.deepEqual(origin(), { cluster: 'app1', source: undefined });
    await app1.remove(spiffeFederationKind, 'bruges.example', 'u1', undefined);
    assert.ok(origin());
    await app1.apply(federation({ source: source('u2') }), undefined);
    assert.deepEqual(origin()?.source, source('u2'));
  });
});

describe('the rights of a cluster', () => {
  test('come from bindings to its user only, and not from groups of callers of the API', async () => {
    const site = await syncedSite();
    await site.put(roleBindingKind, {
      name: 'everybody',
      spec: { role: 'admin', subjects: [{ kind: 'Group', name: 'system:authenticated' }] },
    });
    const app1 = site.synced('app1');
    assert.equal(await codeOf(app1.apply(federation(), undefined)), 'HANSA_FORBIDDEN');
    assert.equal(site.get(spiffeFederationKind, 'bruges.example'), undefined);
    const denied = site.drafts.at(-1);
    assert.deepEqual(
      [denied?.actor.user, denied?.outcome, denied?.kind, denied?.name],
      ['cluster:app1', 'deny', 'SPIFFEFederation', 'bruges.example'],
    );
  });

  test('are separate for creating, changing and deleting, and end at once', async () => {
    const site = await syncedSite();
    const app1 = site.synced('app1');
    const allow = (...verbs: readonly string[]) =>
      site.allow('app1', { kinds: ['SPIFFEFederation'], verbs });
    await allow('create');
    await app1.apply(federation(), undefined);
    assert.equal(await codeOf(app1.apply(federation(), undefined)), 'HANSA_FORBIDDEN');
    await allow('patch');
    await app1.apply(federation({ labels: {} }), undefined);
    const other = federation({ name: 'ghent.example' });
    assert.equal(await codeOf(app1.apply(other, undefined)), 'HANSA_FORBIDDEN');
    const remove = () => app1.remove(spiffeFederationKind, 'bruges.example', 'u1', undefined);
    assert.equal(await codeOf(remove()), 'HANSA_FORBIDDEN');
    await allow('delete');
    assert.equal(await codeOf(remove()), undefined);
  });

  test('say the same of objects that exist and that do not, where there are none', async () => {
    const site = await syncedSite();
    await site.put(spiffeFederationKind, { name: 'bruges.example', spec: federation().spec });
    const app1 = site.synced('app1');
    const messageOf = async (name: string): Promise<string> => {
      const error = await app1.apply(federation({ name }), undefined).catch((caught) => caught);
      return (error as Error).message.replaceAll(name, 'NAME');
    };
    assert.equal(await messageOf('bruges.example'), await messageOf('ghent.example'));
  });

  test('do not grow by Roles and RoleBindings that it applies', async () => {
    const site = await syncedSite();
    await site.allow('app1', federations, { kinds: ['Role', 'RoleBinding'], verbs: all });
    await site.put(roleKind, {
      name: 'broad',
      spec: { rules: [{ kinds: ['*'], verbs: ['*'] }] },
    });
    const app1 = site.synced('app1');
    const binding = (name: string, role: string) =>
      objectOf(roleBindingKind, name, {
        role,
        subjects: [{ kind: 'User', name: 'cluster:app1' }],
      });
    const role = (name: string, kinds: readonly string[], verbs: readonly string[]) =>
      objectOf(roleKind, name, { rules: [{ kinds: [...kinds], verbs: [...verbs] }] });
    const escalations = [
      role('more', ['JoinToken'], ['create']),
      role('more', ['*'], ['*']),
      role('more', ['SPIFFEFederation'], ['get']),
      role('more', ['Role'], ['escalate']),
      role('more', ['Role'], ['bind']),
      binding('more', 'broad'),
      binding('more', 'admin'),
      binding('more', 'editor'),
      role('admin', ['SPIFFEFederation'], ['create']),
    ];
    for (const escalation of escalations) {
      const code = await codeOf(app1.apply(escalation, undefined));
      assert.match(
        code ?? '',
        /^HANSA_(FORBIDDEN|ALREADY_EXISTS)$/,
        JSON.stringify(escalation.spec),
      );
    }
    assert.equal(
      await codeOf(app1.apply(binding('more', 'missing'), undefined)),
      'HANSA_NOT_FOUND',
    );
    // Its own role exists already, and did not come from the cluster.
    const own = role('of-app1', ['SPIFFEFederation'], ['create']);
    assert.equal(await codeOf(app1.apply(own, undefined)), 'HANSA_ALREADY_EXISTS');
    await app1.apply(role('same', ['SPIFFEFederation'], ['create']), undefined);
    await app1.apply(binding('same', 'same'), undefined);
  });

  test('do not include fields that need a further right', async () => {
    const site = await syncedSite();
    await site.allow('app1', federations, { kinds: ['JoinToken'], verbs: all });
    const app1 = site.synced('app1');
    const labelled = federation({ labels: { 'hansa.dev/peer': 'bruges.example' } });
    assert.equal(await codeOf(app1.apply(labelled, undefined)), 'HANSA_FORBIDDEN');
    const token = objectOf(joinTokenKind, 'ci', {
      method: 'spiffe',
      roles: ['agent'],
      labels: { zone: 'a' },
      spiffe: { allow: [{ spiffeID: 'spiffe://bruges.example/ci/*' }] },
    });
    assert.equal(await codeOf(app1.apply(token, undefined)), 'HANSA_FORBIDDEN');
  });

  test('end for a while when the cluster causes too many audit records', async () => {
    const site = await syncedSite({ recordsPerSecond: 1 });
    await site.allow('app1', federations);
    const app1 = site.synced('app1');
    for (let at = 0; at < 300; at++) {
      await app1.apply(federation({ labels: { at: String(at) } }), undefined);
    }
    const code = await codeOf(app1.apply(federation(), undefined));
    assert.equal(code, 'HANSA_TOO_MANY_REQUESTS');
    await site.allow('app2', federations);
    await site.synced('app2').apply(federation({ name: 'ghent.example' }), undefined);
    await site.clock.advance(10_000);
    await app1.apply(federation(), undefined);
  });

  test('end with the lease of the replica that writes', async () => {
    const { site, app1 } = await allowed();
    const { leases } = site.store;
    const old = await leases.acquire('sync', 'one', 1000);
    await leases.release('sync', 'one', old?.epoch ?? 0);
    const next = await leases.acquire('sync', 'two', 1000);
    const fenceOf = (lease: typeof old) => ({ lease: 'sync', epoch: lease?.epoch ?? 0 });
    assert.equal(await codeOf(app1.apply(federation(), fenceOf(old))), 'HANSA_FENCED');
    await app1.apply(federation(), fenceOf(next));
    const remove = (lease: typeof old) =>
      app1.remove(spiffeFederationKind, 'bruges.example', 'u1', fenceOf(lease));
    assert.equal(await codeOf(remove(old)), 'HANSA_FENCED');
    await remove(next);
    assert.equal(site.get(spiffeFederationKind, 'bruges.example'), undefined);
  });

  test('cover only kinds that the site serves, and no singleton', async () => {
    const { app1 } = await allowed();
    assert.equal(app1.serves(spiffeFederationKind), true);
    assert.equal(app1.serves(siteKind), false);
    assert.equal(app1.serves({ ...spiffeFederationKind, kind: 'Other' }), false);
  });
});

describe('an origin', () => {
  const anna = personCaller('anna', '01');

  async function withFederation() {
    const { site, app1 } = await allowed();
    await app1.apply(federation(), undefined);
    const edit = (caller: typeof anna, metadata: (live: ObjectDraft['metadata']) => object) =>
      site.writer.update(
        spiffeFederationKind,
        'bruges.example',
        undefined,
        {
          caller,
          verb: 'update',
          options: { dryRun: false, manager: 'm', fieldValidation: 'Strict', force: false },
          requestId: '',
          address: undefined,
        },
        (live) => {
          const current = live as ObjectDraft;
          return { ...current, metadata: { ...current.metadata, ...metadata(current.metadata) } };
        },
      );
    return { site, app1, edit };
  }

  test('cannot be set or changed by a user, unless the user has all rights', async () => {
    const { edit } = await withFederation();
    const labels = { [clusterOriginKey]: 'app2' };
    const annotations = { [clusterOriginKey]: '{"uid":"x","definition":"y","version":"1"}' };
    for (const change of [{ labels }, { annotations }]) {
      assert.equal(await codeOf(edit(anna, () => change)), 'HANSA_FORBIDDEN');
      assert.equal(await codeOf(edit(socketOwner, () => change)), undefined);
    }
  });

  test('stays when a user changes something else, and can be removed', async () => {
    const { site, app1, edit } = await withFederation();
    await edit(anna, ({ labels }) => ({ labels: { ...labels, team: 'b' } }));
    await edit(anna, () => ({ labels: {}, annotations: {} }));
    assert.equal(await codeOf(app1.apply(federation(), undefined)), 'HANSA_ALREADY_EXISTS');
    await app1.remove(spiffeFederationKind, 'bruges.example', 'u1', undefined);
    assert.ok(site.get(spiffeFederationKind, 'bruges.example'));
  });

  test('that is malformed has no source', () => {
    for (const text of [undefined, '', 'x', '[]', '5', '{"uid":1}', '{"uid":"a","version":"1"}']) {
      const annotations: Readonly<Record<string, string>> =
        text === undefined ? {} : { [clusterOriginKey]: text };
      assert.deepEqual(originOf({ labels: { [clusterOriginKey]: 'app1' }, annotations }), {
        cluster: 'app1',
        source: undefined,
      });
    }
    assert.equal(originOf({}), undefined);
    assert.equal(originOf({ labels: { [clusterOriginKey]: '' } }), undefined);
  });
});
