import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { anonymous } from '../../core/access/identity.ts';
import { systemClock } from '../../core/clock/system.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { policyAnnotation } from '../names.ts';
import { keyOfPolicy } from '../policies/policy-ref.ts';
import { optionsOf, TestPolicyMember } from '../policies/view/test-policy-members.ts';
import { policiesRoutes } from './policies-routes.ts';

const ref = (name: string) => ({
  group: 'networking.k8s.io',
  plural: 'networkpolicies',
  namespace: 'shop',
  name,
});

function routesOf(member: TestPolicyMember | undefined) {
  const { members, ...options } = optionsOf(...(member === undefined ? [] : [member]));
  const current = member && members;
  const routes = policiesRoutes({ ...options, members: () => current, clock: systemClock });
  const [list, one] = routes;
  assert.ok(list && one);
  return { list, one };
}

function memberWith(...names: readonly string[]): TestPolicyMember {
  const member = new TestPolicyMember('a', 'shop');
  for (const name of names) {
    const annotations = { [policyAnnotation]: 'true' };
    member.put(ref(name), {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name, namespace: 'shop', resourceVersion: '1', annotations },
      spec: {},
    });
  }
  return member;
}

interface Answer {
  readonly policies: readonly { readonly key: string; readonly name: string }[];
  readonly metadata: { readonly continue?: string };
}

suite('what a site tells commands about federated policies', () => {
  test('is a list in pages, and each by its key', async () => {
    const { list, one } = routesOf(memberWith('web', 'pay', 'ship'));
    const ask = async (query: Record<string, string>): Promise<Answer> => {
      const call = { caller: anonymous, query: new URLSearchParams(query) };
      return JSON.parse(String((await callRoute(list, call)).body)) as Answer;
    };
    const first = await ask({ limit: '2' });
    const second = await ask({ limit: '2', continue: first.metadata.continue ?? '' });
    assert.deepEqual(second.metadata, {});
    assert.deepEqual(
      [...first.policies, ...second.policies].map(({ name }) => name),
      ['pay', 'ship', 'web'],
    );
    assert.deepEqual(
      (await ask({ name: 'shop/web' })).policies.map(({ name }) => name),
      ['web'],
    );
    const key = keyOfPolicy(ref('web'));
    const found = await callRoute(one, { caller: anonymous, params: { key } });
    assert.equal((JSON.parse(String(found.body)) as { name: string }).name, 'web');
    for (const bad of [{ limit: '-1' }, { limit: 'x' }, { continue: '%%%' }]) {
      await assert.rejects(ask(bad), { code: 'HANSA_BAD_REQUEST' });
    }
  });

  test('is nothing at a site that supervises no cluster set', async () => {
    const { list, one } = routesOf(undefined);
    const { body } = await callRoute(list, { caller: anonymous });
    assert.deepEqual(JSON.parse(String(body)), { policies: [], metadata: {} });
    const key = keyOfPolicy(ref('web'));
    await assert.rejects(async () => callRoute(one, { caller: anonymous, params: { key } }), {
      code: 'HANSA_NOT_FOUND',
      message: /hansa policy list/,
    });
  });
});
