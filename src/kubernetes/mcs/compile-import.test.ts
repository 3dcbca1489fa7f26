import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { epochAnnotation, importAnnotation, vmAnnotation } from '../names.ts';
import type { Service } from '../objects.ts';
import { compilePlan } from '../services/compile-plan.ts';
import { isServiceName } from '../services/federated-name.ts';
import type { MemberService, ServiceTraits } from '../services/member-service.ts';
import {
  clustersOf,
  compileImport,
  compileImportService,
  isOtherType,
  isSameImport,
  isSameImportService,
  plainTraits,
  repairedImportService,
} from './compile-import.ts';
import { exportOutcomes } from './export-conditions.ts';
import {
  importServiceName,
  isDisposableImportService,
  isImportService,
  isImportSlice,
} from './import-marks.ts';
import { readServiceExport, readServiceImport } from './read-mcs-objects.ts';

const ref = { scope: 'exported', namespace: 'shop', name: 'web' } as const;

const member = (
  clusterID: string,
  createdAt: string,
  traits: Partial<ServiceTraits> = {},
  port = 80,
): MemberService => ({
  clusterID,
  ref,
  kind: 'Service',
  namespace: 'shop',
  name: 'web',
  createdAt,
  exposure: { by: 'pods' },
  ports: [{ name: 'http', port, protocol: 'TCP', appProtocol: undefined, outside: undefined }],
  unreachable: undefined,
  traits: { ...plainTraits, ...traits },
});

const planOf = (...members: readonly MemberService[]) =>
  compilePlan(
    ref,
    'west',
    members.map((service) => ({
      service,
      fate: 'use',
      settings: { routable: true, endpointPrefixes: ['10.0.0.0/8'] },
      readyPorts: service.ports,
    })),
    false,
  );

const withIP = (service: Service | undefined): Service => ({
  ...(service as Service),
  spec: {
    ...(service as Service).spec,
    clusterIP: '10.96.0.9',
    clusterIPs: ['10.96.0.9', 'fd00::9'],
    ipFamilies: ['IPv4', 'IPv6'],
  },
});

describe('a ServiceImport', () => {
  test('uses all clusters, its own too, and has an address of each family', () => {
    const plan = planOf(member('north', '2'), member('west', '1'));
    assert.deepEqual(
      [...plan.participants.values()].map(({ service, isLocal }) => [service.clusterID, isLocal]),
      [
        ['west', true],
        ['north', false],
      ],
    );
    const found = compileImport(plan, withIP(compileImportService(plan, undefined, undefined)));
    assert.deepEqual(found.spec.ips, ['10.96.0.9', 'fd00::9']);
    assert.deepEqual(found.spec.ipFamilies, ['IPv4', 'IPv6']);
    assert.deepEqual(clustersOf(plan), [{ cluster: 'north' }, { cluster: 'west' }]);
  });

  test('is what the oldest export says, whatever order they come in', () => {
    const [old, young] = [member('south', '1', { isHeadless: true }), member('north', '2')];
    for (const plan of [planOf(old, young), planOf(young, old)]) {
      assert.equal(compileImport(plan, undefined).spec.type, 'Headless');
      assert.equal(compileImportService(plan, undefined, undefined)?.spec.clusterIP, 'None');
    }
  });

  test('stays as it is while the oldest export cannot be read', () => {
    const unread = { ...member('south', ''), name: '', namespace: '' };
    const { traits: _, ...rest } = unread;
    const plan = planOf(rest, member('north', '2', { isHeadless: true }));
    const live = withIP(compileImportService(planOf(member('south', '1')), undefined, undefined));
    assert.equal(compileImport(plan, live).spec.type, 'ClusterSetIP');
    assert.notEqual(compileImportService(plan, live, undefined)?.spec.clusterIP, 'None');
  });

  test('has no Service without ports', () => {
    assert.equal(compileImportService(planOf(), undefined, undefined), undefined);
  });

  test('is the same after the cache cut it down', () => {
    const plan = planOf(member('north', '1', { sessionAffinity: 'ClientIP', timeoutSeconds: 60 }));
    const wanted = compileImport(plan, withIP(compileImportService(plan, undefined, undefined)));
    assert.ok(isSameImport(wanted, readServiceImport(wanted)));
    const other = { ...wanted, spec: { ...wanted.spec, ips: ['192.0.2.1'] } };
    assert.ok(!isSameImport(wanted, readServiceImport(other)));
  });

  test('has a Service that is repaired, and keeps its address', () => {
    const plan = planOf(member('north', '1'));
    const wanted = compileImportService(plan, undefined, undefined) as Service;
    const live = withIP(wanted);
    assert.ok(isSameImportService(wanted, live));
    for (const spec of [
      { ...live.spec, ports: [] },
      { ...live.spec, type: 'NodePort' as const },
      { ...live.spec, sessionAffinity: 'ClientIP' },
      { ...live.spec, internalTrafficPolicy: 'Local' },
      { ...live.spec, externalIPs: ['192.0.2.1'] },
    ]) {
      assert.ok(!isSameImportService(wanted, { ...live, spec }), JSON.stringify(spec));
      const repaired = repairedImportService(wanted, { ...live, spec });
      assert.ok(isSameImportService(wanted, repaired));
      assert.equal(repaired.spec.clusterIP, '10.96.0.9');
    }
    assert.ok(isOtherType({ ...live, spec: { clusterIP: 'None' } }, wanted));
  });
});

describe('the Service behind a ServiceImport', () => {
  test('has a legal name of its own for each name of a Service', () => {
    const names = [
      'a',
      'web',
      'web-1',
      'b'.repeat(63),
      `${'b'.repeat(62)}c`,
      `${'c'.repeat(40)}-x`,
    ];
    const made = names.map(importServiceName);
    for (const name of made) assert.ok(isServiceName(name), name);
    assert.equal(new Set([...names, ...made]).size, names.length * 2);
  });

  test('is known by its epoch and one more mark, and is no Service of machines', () => {
    const own = { [epochAnnotation]: '3', [importAnnotation]: 'web' };
    const of = (annotations: Record<string, string>, name = importServiceName('web')) => ({
      metadata: { name, namespace: 'shop', annotations },
      spec: {},
    });
    assert.ok(isDisposableImportService(of(own)));
    assert.ok(!isDisposableImportService(of(own, 'mine')), 'made from its manifest');
    assert.ok(!isImportService(of({ [importAnnotation]: 'web' })), 'of a user');
    assert.ok(!isImportService(of({ ...own, [vmAnnotation]: 'web' })));
    assert.ok(!isImportSlice(of({ [epochAnnotation]: '3' })));
  });
});

describe('what an export is told', () => {
  const facts = {
    namespace: 'shop',
    name: 'web',
    clusterID: 'north',
    service: { apiVersion: 'v1', kind: 'Service', metadata: { name: 'web' }, spec: {} },
  };

  test('names each property that differs once, with the cluster that decided', () => {
    const plan = planOf(
      member('south', '1', { families: ['IPv4'] }),
      member('north', '2', { isHeadless: true, families: ['IPv4', 'IPv6'] }, 81),
      member('west', '3', { families: ['IPv6'] }),
    );
    const { Conflict } = exportOutcomes({ ...facts, plan });
    assert.equal(Conflict.reason, 'PortConflict,TypeConflict,IPFamilyConflict');
    assert.match(Conflict.message, /Using IPv4 from the first ServiceExport, in south\. 1 of 3/);
  });

  test('counts ports that only one cluster has as a conflict, although all are used', () => {
    const more = member('north', '2');
    const plan = planOf(member('south', '1'), {
      ...more,
      ports: [...more.ports, { ...more.ports[0]!, name: 'https', port: 443 }],
    });
    const { Conflict, Ready } = exportOutcomes({ ...facts, plan });
    assert.equal(Conflict.reason, 'PortConflict');
    assert.equal(Ready.status, 'True');
    assert.deepEqual(
      plan.ports.map(({ port }) => port),
      [80, 443],
    );
  });

  test('waits for the plan', () => {
    assert.equal(exportOutcomes({ ...facts, plan: planOf() }).Ready.reason, 'Pending');
  });
});

test('whatever a cluster sends as an object of the API can be cached', () => {
  const metadata = { name: 'web', namespace: 'shop' };
  for (const part of [undefined, null, 7, 'x', [], {}, { conditions: [1], clusters: ['a', {}] }]) {
    const object = { metadata, spec: part, status: part } as never;
    assert.equal(readServiceExport(object).metadata.name, 'web');
    assert.deepEqual(readServiceImport(object).spec.ports, []);
  }
});
