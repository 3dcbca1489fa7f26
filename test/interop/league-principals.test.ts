// Who is a site for the admission policies of a member, judged on a real kube-apiserver.

import { after, before, suite, test } from 'node:test';
import { epochAnnotation } from '../../src/kubernetes/names.ts';
import { until } from '../e2e/until.ts';
import { MemberCluster, withoutPolicies } from './member-cluster.ts';
import { copyOf, serviceOf, services } from './member-objects.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('etcd', 'kube-apiserver', 'kubectl');

let cluster: MemberCluster;

before(async () => {
  if (skip !== false) return;
  cluster = await MemberCluster.start();
  await cluster.kubectl.ok(['create', 'namespace', 'shop']);
});
after(() => cluster?.stop());

suite('the principals of a member', { skip: skip || withoutPolicies }, () => {
  before(async () => {
    await cluster.untilRefused('hansa-league-copies', 'site', 'POST', services, serviceOf('probe'));
    const epoch = { annotations: { [epochAnnotation]: '1' } };
    await cluster.untilRefused(
      'hansa-league-epochs',
      'admin',
      'POST',
      services,
      serviceOf('probe', epoch),
    );
  });

  test('an account with the name of a site is none without the rights of one', async () => {
    await cluster.kubectl.ok(['create', 'namespace', 'kube-fed']);
    const kubectl = (line: string) => cluster.kubectl.ok(line.split(' '));
    const kinds = 'services,endpointslices.discovery.k8s.io';
    await kubectl(`create role everything -n shop --verb * --resource ${kinds}`);
    for (const account of ['kube-fed:hansa', 'kube-fed:hansa-x', 'hansa-system:other']) {
      const user = `system:serviceaccount:${account}`;
      const name = account.replace(':', '-');
      // All rights in one namespace, as its creator can give them.
      const binding = `rolebinding ${name} -n shop --role everything`;
      await kubectl(`create ${binding} --serviceaccount ${account}`);
      await until(async () => {
        const query = { dryRun: 'All' };
        return (
          (await cluster.send({ user }, 'POST', services, serviceOf(name), query)).status === 201
        );
      }, `${user} has no rights in the namespace`);
      await cluster.refuses({ user }, 'POST', services, copyOf(name, '7'), /only Hansa sites/);
      await cluster.accepts({ user }, 'POST', services, serviceOf(name));
      await cluster.accepts({ user }, 'DELETE', `${services}/${name}`);
    }
    const member = 'clusterrolebinding third --clusterrole hansa-league-member';
    await kubectl(`create ${member} --serviceaccount kube-fed:hansa`);
    const third = { user: 'system:serviceaccount:kube-fed:hansa' };
    await until(async () => {
      const query = { dryRun: 'All' };
      return (
        (await cluster.send(third, 'POST', services, copyOf('third', '7'), query)).status === 201
      );
    }, 'the third site may not write');
    await cluster.refuses(third, 'POST', services, serviceOf('third'), /epoch of its term/);
    await kubectl('delete clusterrolebinding third');
  });
});
