import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createSecureServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { suite, type TestContext, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { yieldToEventLoop } from '../../core/clock/yield-to-event-loop.ts';
import { PeerAuthenticator } from '../../core/identity/tls/peer-authenticator.ts';
import { guardServer, svidServerOptions } from '../../core/identity/tls/server.ts';
import { brokenRule } from '../../core/identity/x509/rules.ts';
import {
  BundleTable,
  credentialOf,
  type Forged,
  forgeLeaf,
  forgeRoot,
  wholeSecond,
} from '../../core/identity/x509/test-forge.ts';
import { afterPreparation } from './after-preparation.ts';

const root = forgeRoot('lubeck.example');
const web = 'spiffe://lubeck.example/web';
/** Under the name of our authority, with another key. */
const impostor = forgeRoot('lubeck.example', { subject: root.certificate.subject });

/**
 * A server whose thread pool finds every signature valid, as soon as the test lets it. So an answer with the ID
 * of an impostor shows that the main thread has verified nothing.
 */
async function scene(t: TestContext, budget?: { waitSeconds(): number | undefined }) {
  let verified = 0;
  let requests = 0;
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const peers = new PeerAuthenticator({
    bundles: new BundleTable().set('lubeck.example', root),
    clock: { now: Date.now },
    ...(budget && { budget: { ...budget, charge: () => undefined } }),
    queue: {
      of: () => async () => {
        verified += 1;
        await released;
        return true;
      },
    },
  });
  const site = credentialOf(forgeLeaf(root, 'spiffe://lubeck.example/hansa/site'));
  const server = createSecureServer(
    svidServerOptions(site),
    afterPreparation(peers, (request, response) => {
      requests += 1;
      let who: string;
      try {
        who = peers.authenticate(request.socket as TLSSocket)?.id.toString() ?? 'nobody';
      } catch (error) {
        who = String(brokenRule(error));
      }
      (response as { end(text: string): void }).end(who);
    }),
  );
  guardServer(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const open = (...chain: readonly Forged[]) => {
    const [leaf, ...above] = chain;
    const credential = leaf && credentialOf(leaf, ...above);
    const session = connect(`https://127.0.0.1:${port}`, {
      rejectUnauthorized: false,
      ...(credential && { cert: credential.certificateChain, key: credential.privateKey }),
    });
    t.after(() => session.destroy());
    const ask = async (): Promise<string> => {
      let body = '';
      for await (const chunk of session.request({ ':path': '/' })) body += String(chunk);
      return body;
    };
    return { session, ask };
  };
  t.after(() => void server.close());
  return { open, release, verified: () => verified, requests: () => requests };
}

suite('the requests of a connection', () => {
  test('wait for one check of its signature on another thread, however many they are', async (t) => {
    const { open, release, verified, requests } = await scene(t);
    const { ask } = open(forgeLeaf(impostor, web));
    const answers = Array.from({ length: 300 }, ask);
    while (verified() === 0) await yieldToEventLoop();
    assert.equal(await open().ask(), 'nobody', 'other callers do not wait');
    assert.equal(requests(), 1);
    release();
    assert.deepEqual(new Set(await Promise.all(answers)), new Set([web]));
    assert.equal(verified(), 1);
  });

  test('cost no signature where a certificate has expired', async (t) => {
    const { open, verified } = await scene(t);
    const expired = forgeLeaf(impostor, web, { notAfterMs: wholeSecond(Date.now() - 5000) });
    const { ask } = open(expired);
    const answers = await Promise.all(Array.from({ length: 300 }, ask));
    assert.deepEqual(new Set(answers), new Set(['expired']));
    assert.equal(verified(), 0);
  });

  test('of a source without a budget are those of a caller whose signature is wrong', async (t) => {
    const { open, verified } = await scene(t, { waitSeconds: () => 7 });
    assert.equal(await open(forgeLeaf(impostor, web)).ask(), 'signature');
    assert.equal(verified(), 0);
  });

  test('are not served where the client has gone meanwhile', async (t) => {
    const { open, release, verified, requests } = await scene(t);
    const { session, ask } = open(forgeLeaf(impostor, web));
    const answer = ask();
    while (verified() === 0) await yieldToEventLoop();
    session.destroy();
    await assert.rejects(async () => {
      if ((await answer) === '') throw new Error('it ended');
    });
    // The server has seen the end of the connection before it answers on another one.
    await open().ask();
    release();
    await open().ask();
    assert.equal(requests(), 2);
  });
});
