// Writes of leaders of old terms on a real kube-apiserver: the Lease of the member, as parameter of an admission
// policy, refuses them also where no new leader has written, and FencedWriter on every version of Kubernetes.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { HansaError } from '../../src/core/errors/error.ts';
import { KubeStatusError } from '../../src/core/kube/kube-errors.ts';
import { FencedWriter, type Written } from '../../src/kubernetes/fencing/fenced-writer.ts';
import { termOf } from '../../src/kubernetes/fencing/test-term.ts';
import {
  deletingAnnotation,
  epochAnnotation,
  leaseName,
  memberCondition,
} from '../../src/kubernetes/names.ts';
import { until } from '../e2e/until.ts';
import { type Json, MemberCluster, secondSite, withoutPolicies } from './member-cluster.ts';
import {
  annotated,
  copyOf,
  leaseOf,
  leases,
  marks,
  serviceOf,
  services,
  sliceOf,
  slices,
} from './member-objects.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('etcd', 'kube-apiserver', 'kubectl');
const why = /the Lease has epoch 20.*epoch (10|0)$/;

let cluster: MemberCluster;

before(async () => {
  if (skip !== false) return;
  cluster = await MemberCluster.start();
  await cluster.kubectl.ok(['create', 'namespace', 'shop']);
});
after(() => cluster?.stop());

/** The Lease has this epoch, and the policy has seen it. */
async function takeLease(epoch: string): Promise<void> {
  const path = `${leases}/${leaseName}`;
  const { status, object } = await cluster.send('admin', 'GET', path);
  if (status === 404)
    await cluster.accepts('site', 'POST', leases, leaseOf({ [epochAnnotation]: epoch }));
  else await cluster.accepts('site', 'PUT', path, annotated(object, { [epochAnnotation]: epoch }));
  const old = copyOf('probe', String(Number(epoch) - 1));
  await cluster.untilRefused('hansa-league-terms', 'site', 'POST', services, old);
}

suite('the Lease of a member', { skip: skip || withoutPolicies }, () => {
  for (const [what, collection, make] of [
    ['Service', services, copyOf],
    ['EndpointSlice', slices, sliceOf],
  ] as const) {
    const path = (name: string): string => `${collection}/${name}`;

    test(`keeps an old leader from a ${what} that the new one has not written`, async () => {
      await cluster.send('admin', 'DELETE', `${leases}/${leaseName}`);
      // Without a Lease this policy allows all, so the copies can be made.
      await until(async () => {
        const query = { dryRun: 'All' };
        return (
          (await cluster.send('site', 'POST', collection, make('x', '1'), query)).status === 201
        );
      }, 'the policy still sees the Lease');
      for (const name of ['old', 'marked']) {
        await cluster.accepts('site', 'POST', collection, make(name, '10'));
      }
      const mark = annotated(make('marked', '10'), { [deletingAnnotation]: '10' });
      await cluster.accepts('site', 'PUT', path('marked'), mark);
      await takeLease('20');
      for (const by of ['site', { user: secondSite }] as const) {
        await cluster.refuses(by, 'PUT', path('old'), make('old', '10'), why);
        const late = annotated(make('old', '10'), { [deletingAnnotation]: '10' });
        await cluster.refuses(by, 'PUT', path('old'), late, why);
        await cluster.refuses(by, 'DELETE', path('marked'), undefined, why);
        await cluster.refuses(by, 'POST', collection, make('new', '10'), why);
      }
      // The leader may, and one whose Lease the policy has not seen yet may too.
      await cluster.accepts('site', 'PUT', path('old'), make('old', '20'));
      const writer = new FencedWriter(cluster.site, termOf(30));
      await writer.remove(path('marked'), await cluster.accepts('admin', 'GET', path('marked')));
      await cluster.accepts('admin', 'DELETE', path('old'));
    });
  }

  test('keeps an old leader from the condition of a Service', async () => {
    await takeLease('20');
    await cluster.accepts('admin', 'POST', services, serviceOf('told'));
    const path = `${services}/told`;
    const condition = (reason: string) => ({
      type: memberCondition,
      status: 'True',
      reason,
      message: '',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    });
    const withReason = async (reason: string): Promise<Json> => {
      const live = await cluster.accepts('admin', 'GET', path);
      return { ...live, status: { loadBalancer: {}, conditions: [condition(reason)] } };
    };
    await cluster.refuses('site', 'PUT', `${path}/status`, await withReason('None'), why);
    const old = new FencedWriter(cluster.site, termOf(10));
    await assert.rejects(old.replaceStatus(path, await withReason('Old')), why);
    const now = new FencedWriter(cluster.site, termOf(20));
    const written = await now.replaceStatus(path, await withReason('New'));
    assert.match(JSON.stringify(written), /"reason":"New"/);
  });

  test('does not delay a new leader: its first writes follow the Lease at once', async () => {
    for (let epoch = 100; epoch < 120; epoch++) {
      const path = `${leases}/${leaseName}`;
      const live = await cluster.accepts('admin', 'GET', path);
      await cluster.accepts(
        'site',
        'PUT',
        path,
        annotated(live, { [epochAnnotation]: String(epoch) }),
      );
      await cluster.accepts('site', 'POST', services, copyOf(`first-${epoch}`, String(epoch)));
    }
  });

  test('does not concern users, who may edit and delete copies of any epoch', async () => {
    await cluster.accepts('site', 'POST', services, copyOf('edited', '120'));
    await takeLease('130');
    const live = await cluster.accepts('admin', 'GET', `${services}/edited`);
    await cluster.accepts('admin', 'PUT', `${services}/edited`, annotated(live, { mine: 'yes' }));
    await cluster.accepts('admin', 'DELETE', `${services}/edited`);
  });
});

suite('fenced writes', { skip }, () => {
  const path = `${services}/fenced`;
  const failure = async (work: Promise<unknown>): Promise<unknown> => {
    try {
      await work;
    } catch (error) {
      return error;
    }
    return assert.fail('it succeeded');
  };
  const statusOf = (error: unknown): number | undefined =>
    error instanceof KubeStatusError ? error.status : undefined;
  const copy = (name: string): Written => {
    const { metadata, ...rest } = serviceOf(name, marks('1'));
    return { ...rest, metadata: { ...metadata, namespace: 'shop' } };
  };

  test('of a leader that was replaced change nothing, on every version of Kubernetes', async () => {
    const [old, next] = [
      new FencedWriter(cluster.site, termOf(213)),
      new FencedWriter(cluster.site, termOf(214)),
    ];
    const seen = await old.create(services, copy('fenced'));
    const taken = await next.replace(path, seen, seen);
    assert.equal(taken.metadata.annotations?.[epochAnnotation], '214');
    // With what it saw before it was stopped, and with what it reads after it woke up.
    const stale = await failure(old.replace(path, seen, seen));
    assert.ok([409, 422].includes(statusOf(stale) ?? 0), String(stale));
    const fenced = await failure(old.replace(path, seen, taken));
    assert.ok(fenced instanceof HansaError && fenced.code === 'HANSA_FENCED', String(fenced));
    assert.ok([409, 422].includes(statusOf(await failure(old.remove(path, seen))) ?? 0));
    await next.remove(path, taken);
    assert.equal((await cluster.send('admin', 'GET', path)).status, 404);
  });

  test('do not replace what a user created', async () => {
    await cluster.accepts('admin', 'POST', services, serviceOf('of-user'));
    const writer = new FencedWriter(cluster.site, termOf(214));
    assert.equal(statusOf(await failure(writer.create(services, copy('of-user')))), 409);
  });
});
