// Tests the requirements of the SPIFFE Workload Endpoint and Workload API for every message. Tests of
// single cases are with the services.

import assert from 'node:assert/strict';
import { createPrivateKey, createPublicKey, X509Certificate } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { Metadata, status } from '@grpc/grpc-js';
import { X509SVIDResponseSchema } from '../../../proto/gen/workload_pb.ts';
import { parseChain } from '../../core/identity/x509/svid-validator.ts';
import {
  fetchSvids,
  openAuthority,
  ownSelector,
  putEntry,
  putFederation,
  remove,
  TestStream,
} from './test-workload-site.ts';
import { onSiteAndAgent } from '../agent/test-workload-hosts.ts';
import { workloadApiDefinition } from './workload-api.ts';

function opened<S extends { close(): void }>(t: TestContext, stream: S): S {
  t.after(() => stream.close());
  return stream;
}

onSiteAndAgent('the service SpiffeWorkloadAPI', (host) => {
  test('has the calls of both mandatory profiles and none of our own', () => {
    assert.deepEqual(
      Object.values(workloadApiDefinition)
        .map(({ path, responseStream }) => `${path}${responseStream ? ' stream' : ''}`)
        .toSorted(),
      [
        '/SpiffeWorkloadAPI/FetchJWTBundles stream',
        '/SpiffeWorkloadAPI/FetchJWTSVID',
        '/SpiffeWorkloadAPI/FetchX509Bundles stream',
        '/SpiffeWorkloadAPI/FetchX509SVID stream',
        '/SpiffeWorkloadAPI/ValidateJWTSVID',
      ],
    );
  });

  for (const call of ['FetchWITSVID', 'FetchWITBundles', 'FetchNothing']) {
    test(`answers ${call} with UNIMPLEMENTED`, async (t) => {
      const { store, socket } = await host.site(t);
      await putEntry(store, 'web');
      const refusal = await opened(t, new TestStream(socket, call, X509SVIDResponseSchema)).end();
      assert.equal(refusal.code, status.UNIMPLEMENTED);
    });
  }

  for (const call of Object.keys(workloadApiDefinition)) {
    test(`refuses ${call} without the security header`, async (t) => {
      const { store, socket } = await host.site(t);
      await putEntry(store, 'web');
      const stream = new TestStream(socket, call, X509SVIDResponseSchema, new Metadata());
      assert.equal((await opened(t, stream).end()).code, status.INVALID_ARGUMENT);
    });
  }
});

onSiteAndAgent('a message of FetchX509SVID', (host) => {
  test('has every mandatory field, the leaf first and a key in the clear that is the leaf’s', async (t) => {
    const { store, socket, authority } = await host.site(t);
    await putEntry(store, 'web');
    const { svids, crl } = await opened(t, fetchSvids(socket)).next();
    const [svid] = svids;
    assert(svid !== undefined);
    assert.equal(svid.spiffeId, 'spiffe://lubeck.example/web');
    const [leaf] = parseChain([svid.x509Svid]);
    assert.deepEqual(leaf?.extensions.subjectAlternativeName?.uris, [svid.spiffeId]);
    assert.equal(leaf.extensions.basicConstraints?.ca, false);
    const key = createPrivateKey({
      key: Buffer.from(svid.x509SvidKey),
      format: 'der',
      type: 'pkcs8',
    });
    assert(createPublicKey(key).equals(new X509Certificate(svid.x509Svid).publicKey));
    assert.deepEqual(Buffer.from(svid.bundle), authority.certificate.der);
    assert.deepEqual(crl, []);
  });

  test('repeats everything, whatever changed, and leaves out what is gone', async (t) => {
    const { store, socket, clock } = await host.site(t);
    await putFederation(store, await openAuthority('bruges.example', clock));
    await putEntry(store, 'a', { federatesWith: ['bruges.example'] });
    await putEntry(store, 'b');
    const stream = opened(t, fetchSvids(socket));
    const shown = async () => {
      const { svids, federatedBundles } = await stream.next();
      return [svids.map(({ hint }) => hint).join(), Object.keys(federatedBundles).join()];
    };
    assert.deepEqual(await shown(), ['a,b', 'spiffe://bruges.example']);
    await remove(store, 'workloadentries', 'b');
    assert.deepEqual(await shown(), ['a', 'spiffe://bruges.example']);
    await remove(store, 'spiffefederations', 'bruges.example');
    assert.deepEqual(await shown(), ['a', '']);
  });

  test('has no hint twice, also where entries share their identity', async (t) => {
    const { store, socket } = await host.site(t);
    const spiffeID = 'spiffe://lubeck.example/web';
    for (const [name, hint] of [['a'], ['b', 'internal'], ['c', 'internal'], ['d', 'a']]) {
      const spec = { spiffeID, selectors: [ownSelector], ...(hint !== undefined && { hint }) };
      await putEntry(store, name ?? '', spec);
    }
    const { svids } = await opened(t, fetchSvids(socket)).next();
    assert.deepEqual(
      svids.map(({ hint }) => hint),
      ['', 'internal', '', 'a'],
    );
  });
});
