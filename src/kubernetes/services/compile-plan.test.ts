import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compilePlan, type MemberInput } from './compile-plan.ts';
import { keyOfMember } from './member-service.ts';
import {
  createdOn,
  httpPort,
  memberInput,
  memberService,
  sharedRef,
} from './test-member-services.ts';

const dnsPort = { ...httpPort, name: 'dns', port: 53 };

const takesPart = (target: string, inputs: readonly MemberInput[]): string[] =>
  [...compilePlan(sharedRef, target, inputs).participants.values()].map(
    ({ service }) => service.clusterID,
  );

const reasons = (inputs: readonly MemberInput[]): unknown[] =>
  [...compilePlan(sharedRef, 'x', inputs).outcomes.values()].map(({ status, reason }) => [
    status,
    reason,
  ]);

describe('the plan of a copy', () => {
  test('leads to the local member alone while that is ready, and to all others otherwise', () => {
    const all = [memberInput('a'), memberInput('b'), memberInput('c')];
    assert.deepEqual(takesPart('a', all), ['a']);
    assert.deepEqual(takesPart('z', all), ['a', 'b', 'c']);
    assert.deepEqual(takesPart('a', [memberInput('a', { readyPorts: [] }), ...all.slice(1)]), [
      'b',
      'c',
    ]);
  });

  test('leads to others while the local member is ready only for a port that lost a conflict', () => {
    const older = memberInput('b', {
      service: memberService('b', createdOn(1), { ports: [httpPort, dnsPort] }),
    });
    const lost = { ...httpPort, port: 8080 };
    const service = memberService('a', createdOn(2), { ports: [lost, dnsPort] });
    assert.deepEqual(takesPart('a', [older, memberInput('a', { service, readyPorts: [lost] })]), [
      'b',
    ]);
    assert.deepEqual(takesPart('a', [older, memberInput('a', { service })]), ['a']);
  });

  test('leaves out members that other clusters cannot reach, and says why', () => {
    const nothing = (reason: 'ExternalName' | 'NoLoadBalancer') =>
      memberService('d', createdOn(2), { exposure: { by: 'nothing', reason } });
    const cases = [
      [{ settings: { routable: false, endpointPrefixes: ['10.0.0.0/8'] } }, 'NotRoutable'],
      [{ settings: { routable: true, endpointPrefixes: [] } }, 'NoEndpointPrefixes'],
      [{ service: nothing('ExternalName') }, 'ExternalName'],
      [{ service: nothing('NoLoadBalancer') }, 'NoLoadBalancer'],
    ] as const;
    for (const [over, reason] of cases) {
      const left = memberInput('d', over);
      assert.deepEqual(takesPart('x', [left]), [], reason);
      assert.deepEqual(reasons([left]), [['False', reason]]);
    }
  });

  test('uses a member in its own cluster even if others cannot reach it', () => {
    const settings = { routable: false, endpointPrefixes: [] };
    assert.deepEqual(takesPart('a', [memberInput('a', { settings })]), ['a']);
  });

  test('has no ports of a member without endpoint prefixes, but in its own cluster', () => {
    const settings = { routable: true, endpointPrefixes: [] };
    const older = memberService('b', createdOn(1), { ports: [{ ...httpPort, port: 8080 }] });
    const younger = memberService('a', createdOn(2));
    const inputs = [
      memberInput('b', { service: older, settings }),
      memberInput('a', { service: younger }),
    ];
    const portsIn = (target: string, all: readonly MemberInput[]) =>
      compilePlan(sharedRef, target, all).ports.map(({ port }) => port);
    assert.deepEqual(portsIn('x', inputs), [80]);
    assert.deepEqual(portsIn('b', inputs), [8080]);
    assert.deepEqual(portsIn('x', inputs.slice(0, 1)), [], 'no copy in others');
    assert.deepEqual(portsIn('b', inputs.slice(0, 1)), [8080]);
  });

  test('leaves out Services of namespaces that may not join global ones, in every cluster', () => {
    const settings = { routable: true, endpointPrefixes: ['10.0.0.0/8'] };
    const allowed = { settings: { ...settings, globalNamespaces: ['shop'] } };
    assert.deepEqual(takesPart('x', [memberInput('a', allowed)]), ['a']);
    for (const globalNamespaces of [['other'], []]) {
      const refused = memberInput('a', { settings: { ...settings, globalNamespaces } });
      assert.deepEqual(reasons([refused]), [['False', 'NamespaceNotAllowed']]);
      for (const target of ['x', 'a']) {
        const plan = compilePlan(sharedRef, target, [refused]);
        assert.deepEqual([plan.ports, plan.participants.size], [[], 0], target);
      }
    }
    const namespaced = { scope: 'namespaced', namespace: 'shop', name: 'shop' } as const;
    const service = memberService('a', createdOn(1), { ref: namespaced });
    const own = memberInput('a', { service, settings: { ...settings, globalNamespaces: [] } });
    assert.deepEqual(takesPart('x', [own]), ['a']);
  });

  test('leaves out a member whose every port conflicts with an older one, and tells both', () => {
    const service = memberService('b', createdOn(2), { ports: [{ ...httpPort, port: 8080 }] });
    const inputs = [memberInput('b', { service }), memberInput('a')];
    assert.deepEqual(takesPart('x', inputs), ['a']);
    assert.deepEqual(reasons(inputs), [
      ['True', 'Federated'],
      ['False', 'PortConflict'],
    ]);
    const plan = compilePlan(sharedRef, 'x', inputs);
    const { message = '' } = plan.outcomes.get(keyOfMember(service)) ?? {};
    assert.match(message, /8080\/TCP here and 80\/TCP in a\/Service\/shop\/shop/);
  });

  test('tells a member which of its ports exceed the limit, and no port of another one', () => {
    const ports = Array.from({ length: 101 }, (_, at) => ({
      ...httpPort,
      name: `p${at}`,
      port: at + 1,
    }));
    const service = memberService('b', createdOn(2), { ports });
    const { outcomes } = compilePlan(sharedRef, 'x', [memberInput('b', { service })]);
    const { reason, message = '' } = outcomes.get(keyOfMember(service)) ?? {};
    assert.equal(reason, 'PortConflict');
    assert.match(message, /^The port "p100" \(101\/TCP\) is left out: .* 100 other ports/);
  });

  test('does not count a removed member, not even for ports', () => {
    const service = memberService('b', createdOn(2), { ports: [{ ...httpPort, port: 8080 }] });
    const plan = compilePlan(sharedRef, 'x', [
      memberInput('a', { fate: 'remove' }),
      memberInput('b', { service }),
    ]);
    assert.deepEqual([...plan.participants.keys()], [keyOfMember(service)]);
    assert.equal(plan.ports[0]?.port, 8080);
  });

  test('reports addresses that were left out', () => {
    assert.deepEqual(reasons([memberInput('a', { refused: '8.8.8.8' })]), [
      ['True', 'AddressesLeftOut'],
    ]);
  });

  test('is the same whatever order the members come in', () => {
    const inputs = ['c', 'a', 'b'].map((id) => memberInput(id));
    const sorted = compilePlan(
      sharedRef,
      'x',
      inputs.toSorted((a, b) => (a.service.clusterID < b.service.clusterID ? -1 : 1)),
    );
    assert.deepEqual(compilePlan(sharedRef, 'x', inputs).ports, sorted.ports);
    assert.deepEqual(compilePlan(sharedRef, 'x', inputs).outcomes, sorted.outcomes);
  });
});
