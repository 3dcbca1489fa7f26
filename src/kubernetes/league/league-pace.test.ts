// What one cluster makes a site write into another one, by all parts of the controller of that member.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { entityResource } from '../entities/test-entities.ts';
import { TestClusters } from '../leaving/test-sites.ts';
import { mcsApiVersion } from '../mcs/mcs-objects.ts';
import { mcsResources } from '../mcs/test-exports.ts';

const services = 400;

test('a cluster has one rate of writes for its Services, exports and ExternalEntities', async () => {
  const clusters = new TestClusters();
  const north = await clusters.add('north', true);
  const west = await clusters.add('west');
  for (const { kube } of [north, west]) {
    for (const each of [...mcsResources, entityResource]) kube.serve(each);
  }
  await north.federate('north', 'west');
  await clusters.site('lubeck.example', 'north');
  await clusters.settle();
  for (let at = 0; at < services; at++) {
    const name = `s${at}`;
    west.kube.put('services', 'shop', name, {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: {
        name,
        namespace: 'shop',
        annotations: { 'svc.federated.hansa.dev': `web-${at}` },
      },
      spec: { ports: [{ name: 'http', port: 80 }], externalIPs: ['10.2.0.1'] },
    });
    west.kube.put('serviceexports', 'shop', name, {
      apiVersion: mcsApiVersion,
      kind: 'ServiceExport',
      metadata: { name, namespace: 'shop' },
    });
  }
  const written = (): number =>
    ['services', 'endpointslices', 'serviceimports', 'externalentities'].reduce(
      (sum, plural) => sum + north.kube.objects(plural).length,
      0,
    );
  await clusters.clock.advance(1000);
  // The burst, and the rate of a second.
  assert.ok(written() > 500 && written() <= 1500, `${written()} objects`);
  await clusters.clock.advance(6000);
  // A Service, a slice and an ExternalEntity for each annotation. A ServiceImport, a Service and a slice for each export.
  assert.equal(written(), services * 6);
});
