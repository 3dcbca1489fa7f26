import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { SignResponseSchema } from '../../../proto/gen/agent_pb.ts';
import { messageBurst, messagesPerSecond } from '../../core/agent/limits.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { settle } from '../../core/clock/virtual.ts';
import { HansaError } from '../../core/errors/error.ts';
import { testSite } from '../../core/identity/authority/test-vault.ts';
import { signJwtSvid } from '../../core/identity/jwt/sign-svid.ts';
import { generateP256, PublicKey } from '../../core/identity/x509/keys.ts';
import { openStore } from '../../core/store/open.ts';
import { encodeSiteItem, siteCollection, siteName } from '../agents/site-item.ts';
import type { UsableEntry } from '../workload/entries/matching-entries.ts';
import { RemoteIssuer } from './remote-issuer.ts';
import { SiteView } from './site-view.ts';
import { testAgent, TestSigningLink } from './test-signing-link.ts';

const none = () => [];
const web: UsableEntry = {
  name: 'web',
  uid: 'uid-web',
  id: SpiffeId.parse('spiffe://lubeck.example/web'),
  selectors: ['unix:uid:0'],
  federatesWith: [],
  federatesWithSelector: undefined,
  dnsNames: ['web.lubeck.example'],
  hint: undefined,
  ttlSeconds: 3600,
  jwtTtlSeconds: 300,
};

async function scene() {
  const { authority, clock, random } = await testSite('lubeck.example');
  const store = await openStore({ driver: 'memory' }, { clock });
  const describe = () =>
    store.commit({
      put: [
        {
          collection: siteCollection,
          name: siteName,
          encode: () => encodeSiteItem(authority, 60),
        },
      ],
    });
  await describe();
  const { trustDomain } = authority;
  const site = new SiteView({ trustDomain, store, clock });
  site.start();
  const link = new TestSigningLink(authority, clock, (uid) =>
    uid.startsWith('uid-')
      ? {
          uid,
          spiffeId: `spiffe://lubeck.example/${uid.slice(4)}`,
          ttlSeconds: 3600,
          dnsNames: web.dnsNames,
        }
      : undefined,
  );
  const issuer = new RemoteIssuer({
    trustDomain: trustDomain.name,
    agent: testAgent,
    link,
    site,
    clock,
  });
  /** Lets time pass until it is settled: signatures are made in real time. */
  const settled = async <T>(promise: Promise<T>): Promise<T> => {
    const settlement = Promise.allSettled([promise]);
    const isPending = () => Promise.race([settlement.then(() => false), settle().then(() => true)]);
    while (await isPending()) await clock.advance(1);
    return promise;
  };
  const issue = async (entry = web) => {
    const key = await generateP256(random);
    return settled(issuer.issue(entry, key));
  };
  const jwt = (audience: readonly string[] = ['db'], entry = web) =>
    settled(issuer.issueJwt(entry, audience));
  return { authority, clock, random, store, describe, site, link, issuer, issue, jwt, settled };
}

const unavailable = (message: RegExp) => ({ code: 'HANSA_UNAVAILABLE', message });

suite('the issuer of an agent', () => {
  test('gets an SVID for its key from the site, with a proof that the site accepts', async () => {
    const { issue, authority, clock } = await scene();
    const svid = await issue();
    assert.equal(svid.id.toString(), 'spiffe://lubeck.example/web');
    assert.equal(svid.authorityId, authority.certificate.fingerprint);
    assert.ok(svid.notAfterMs > clock.now() + 3_500_000);
    assert.ok(svid.notAfterMs <= clock.now() + 3_600_000);
  });

  test('sends the requests of one turn in batches of at most fifty, few at once', async () => {
    const { issuer, link, random, clock } = await scene();
    let open = (): void => undefined;
    link.gate = new Promise((resolve) => (open = resolve));
    const keys = await Promise.all(Array.from({ length: 320 }, () => generateP256(random)));
    const svids = Promise.all(keys.map((key) => issuer.issue(web, key)));
    await clock.advance(1);
    assert.deepEqual(link.batches, [50, 50, 50, 50]);
    open();
    assert.equal(new Set((await svids).map(({ serialHex }) => serialHex)).size, 320);
    assert.deepEqual(link.batches, [50, 50, 50, 50, 50, 50, 20]);
    assert.equal(link.mostInFlight, 4);
  });

  test('puts both kinds of requests into one batch, and gives each its own result', async () => {
    const { issuer, link, random, settled } = await scene();
    const key = await generateP256(random);
    const other = { ...web, uid: 'uid-other', id: SpiffeId.parse('spiffe://lubeck.example/other') };
    const [token, svid, second] = await settled(
      Promise.all([
        issuer.issueJwt(web, ['db']),
        issuer.issue(web, key),
        issuer.issueJwt(other, ['a', 'b']),
      ]),
    );
    assert.deepEqual(link.batches, [3]);
    assert.equal(token.id.path, '/web');
    assert.equal(svid.id.path, '/web');
    assert.equal(second.id.path, '/other');
  });

  test('rejects one request that the site refuses, and not the others of its batch', async () => {
    const { issuer, random, settled } = await scene();
    const [one, other] = await settled(
      Promise.allSettled([
        issuer.issue({ ...web, uid: 'stranger' }, await generateP256(random)),
        issuer.issue(web, await generateP256(random)),
      ]),
    );
    assert.ok(one.status === 'rejected');
    assert.deepEqual(
      [(one.reason as HansaError).code, (one.reason as HansaError).message],
      ['HANSA_FORBIDDEN', 'The entry stranger is not assigned to this agent.'],
    );
    assert.equal(other.status, 'fulfilled');
  });

  test('shortens a long refusal, and does not take over a code that it does not know', async () => {
    const { issue, link } = await scene();
    link.x509 = () => ({ refusal: { code: 'toString', message: 'x'.repeat(100_000) } });
    await assert.rejects(issue(), (error: HansaError) => {
      assert.equal(error.code, 'HANSA_UNAVAILABLE');
      return error.message.length < 1100;
    });
  });

  test('rejects everything of a batch whose response has another number of results', async () => {
    const { issue, jwt, link } = await scene();
    link.response = () => create(SignResponseSchema, {});
    await assert.rejects(issue(), unavailable(/0 X\.509-SVIDs and 0 JWT-SVIDs for 1 and 0/));
    await assert.rejects(jwt(), unavailable(/for 0 and 1/));
  });

  test('rejects at once without a connection, and gets an SVID after it is back', async () => {
    const { issue, link, clock } = await scene();
    link.darkSinceMs = clock.now();
    await assert.rejects(issue(), unavailable(/Cannot reach the site/));
    link.darkSinceMs = undefined;
    await issue();
  });

  test('bounds the requests that wait for a slow site, each kind for itself', async () => {
    const { issuer, random } = await scene();
    const key = await generateP256(random);
    for (let at = 0; at < 10_000; at++) void issuer.issue(web, key).catch(() => undefined);
    const full = (most: number) => unavailable(new RegExp(`too slowly, and ${most} requests wait`));
    await assert.rejects(issuer.issue(web, key), full(10_000));
    for (let at = 0; at < 2_000; at++) {
      const entry = { ...web, uid: `uid-${at % 10}` };
      void issuer.issueJwt(entry, [`aud-${at}`]).catch(() => undefined);
    }
    await assert.rejects(issuer.issueJwt(web, ['db']), full(2_000));
    issuer.revoke(new HansaError('HANSA_FORBIDDEN', 'Forgotten.'));
  });

  test('does not send a request for a token that waited too long, and sends later ones', async () => {
    const { issuer, link, clock, settled } = await scene();
    let open = (): void => undefined;
    link.gate = new Promise((resolve) => (open = resolve));
    const sent = Promise.all(
      Array.from({ length: 200 }, (_, at) => issuer.issueJwt(web, [`aud-${at}`])),
    );
    await clock.advance(1);
    const old = issuer.issueJwt(web, ['old']);
    const rejected = assert.rejects(old, unavailable(/it waited for 30 s/));
    await clock.advance(30_000);
    const young = issuer.issueJwt(web, ['young']);
    open();
    await settled(Promise.all([sent, rejected, young]));
    assert.deepEqual(link.batches, [50, 50, 50, 50, 1]);
  });

  test('rejects everything from the moment at which the site forgot the agent', async () => {
    const { issuer, link, random, clock, issue } = await scene();
    let open = (): void => undefined;
    link.gate = new Promise((resolve) => (open = resolve));
    const pending = issuer.issue(web, await generateP256(random));
    pending.catch(() => undefined);
    await clock.advance(1);
    issuer.revoke(new HansaError('HANSA_FORBIDDEN', 'Forgotten.'));
    open();
    await assert.rejects(pending, { code: 'HANSA_FORBIDDEN' });
    await assert.rejects(issue(), { code: 'HANSA_FORBIDDEN' });
  });
});

suite('an X.509-SVID from the site is not used', () => {
  test('where it has another key', async () => {
    const { issue, link, authority, random } = await scene();
    const publicKey = PublicKey.of(await generateP256(random));
    link.x509 = async ({ authority: signedBy }) => {
      const { chain } = await authority.issue({ spiffeId: web.id, publicKey });
      return { chain: [...chain], authority: signedBy };
    };
    await assert.rejects(issue(), unavailable(/entry web .*it has another key/));
  });

  test('where it names another identity', async () => {
    const { issue } = await scene();
    const id = SpiffeId.parse('spiffe://lubeck.example/other');
    await assert.rejects(
      issue({ ...web, id }),
      unavailable(/it names spiffe:\/\/lubeck\.example\/web/),
    );
  });

  test('where it has expired', async () => {
    const { issuer, random, link, clock } = await scene();
    let open = (): void => undefined;
    link.x509 = async (result) => {
      await new Promise<void>((resolve) => (open = resolve));
      return result;
    };
    const pending = issuer.issue(web, await generateP256(random));
    pending.catch(() => undefined);
    await clock.advance(1);
    await settle();
    await clock.advance(3_700_000);
    open();
    await assert.rejects(pending, unavailable(/it was valid until/));
  });

  test('where an authority of another site with the same trust domain signed it', async () => {
    const { issue, link, clock } = await scene();
    const stranger = await testSite('lubeck.example', { clock, random: new SeededRandom('other') });
    const theirs = new TestSigningLink(stranger.authority, clock, (uid) => ({
      uid,
      spiffeId: web.id.toString(),
      ttlSeconds: 60,
      dnsNames: [],
    }));
    link.sign = (build) => theirs.sign(build);
    await assert.rejects(issue(), unavailable(/unknown-authority/));
  });

  test('where the chain is empty, broken or too long', async () => {
    const { issue, link } = await scene();
    for (const chain of [[], [Buffer.from('00', 'hex')], 'eight more']) {
      link.x509 = (result) => ({
        ...result,
        chain:
          typeof chain === 'string'
            ? Array.from({ length: 9 }, () => result.chain[0] as Uint8Array<ArrayBuffer>)
            : chain,
      });
      await assert.rejects(issue(), { code: 'HANSA_UNAVAILABLE' });
    }
  });

  test('where it claims another authority than the one that signed it', async () => {
    const { issue, link } = await scene();
    link.x509 = ({ chain }) => ({ chain, authority: 'ab'.repeat(32) });
    await assert.rejects(issue(), unavailable(/did not sign it/));
  });

  test('where its authority is tainted', async () => {
    const { issue, link, authority, describe } = await scene();
    link.x509 = async (result) => {
      await authority.prepare('x509', none);
      await authority.activate('x509', undefined, none);
      await authority.taint('x509', undefined, none);
      await describe();
      return result;
    };
    await assert.rejects(issue(), unavailable(/its authority is tainted/));
  });
});

test('an SVID of a new authority is used when the bundle with it arrives within a second', async () => {
  const { issuer, random, authority, describe, clock } = await scene();
  await authority.replaceAtOnce('x509', { fresh: true }, none);
  const svid = issuer.issue(web, await generateP256(random));
  await clock.advance(1);
  await describe();
  await clock.advance(1);
  assert.equal((await svid).authorityId, authority.certificate.fingerprint);
});

test('an SVID of a new authority is not used when no bundle with it arrives', async () => {
  const { issue, authority } = await scene();
  await authority.replaceAtOnce('x509', { fresh: true }, none);
  await assert.rejects(issue(), unavailable(/unknown-authority/));
});

suite('a JWT-SVID from the site is not used', () => {
  const forged = async (
    made: Awaited<ReturnType<typeof scene>>,
    change: Partial<Parameters<typeof signJwtSvid>[0]>,
  ) => {
    const { authority, clock, link } = made;
    link.jwt = async () => {
      const { token, keyId } = await signJwtSvid({
        key: authority.jwtSigner,
        trustDomain: authority.trustDomain,
        subject: web.id,
        audience: ['db'],
        nowMs: clock.now(),
        ...change,
      });
      return { token, keyId };
    };
  };

  test('where it names another identity', async () => {
    const made = await scene();
    await forged(made, { subject: SpiffeId.parse('spiffe://lubeck.example/other') });
    await assert.rejects(made.jwt(), unavailable(/it names spiffe:\/\/lubeck\.example\/other/));
  });

  test('where it is for another audience, for more, or for fewer', async () => {
    const made = await scene();
    for (const audience of [['other'], ['db', 'other']]) {
      await forged(made, { audience });
      await assert.rejects(made.jwt(['db']), { code: 'HANSA_UNAVAILABLE' });
    }
    await forged(made, { audience: ['db'] });
    await assert.rejects(made.jwt(['db', 'cache']), unavailable(/another audience/));
  });

  test('where it has expired', async () => {
    const made = await scene();
    await forged(made, { nowMs: made.clock.now() - 400_000 });
    await assert.rejects(made.jwt(), { code: 'HANSA_UNAVAILABLE' });
  });

  test('where the key of another site signed it', async () => {
    const made = await scene();
    const random = new SeededRandom('other');
    const { authority } = await testSite('lubeck.example', { clock: made.clock, random });
    await forged(made, { key: authority.jwtSigner });
    await assert.rejects(made.jwt(), unavailable(/unknown-key/));
  });

  test('where its key is tainted', async () => {
    const made = await scene();
    const { authority, describe, jwt } = made;
    await forged(made, { key: authority.jwtSigner });
    await authority.prepare('jwt', none);
    await authority.activate('jwt', undefined, none);
    await authority.taint('jwt', undefined, none);
    await describe();
    await assert.rejects(jwt(), unavailable(/its key is tainted/));
  });

  test('where it is no token', async () => {
    const { jwt, link } = await scene();
    link.jwt = () => ({ token: 'nothing' });
    await assert.rejects(jwt(), { code: 'HANSA_UNAVAILABLE' });
  });
});

test('an audience that no site accepts is not sent', async () => {
  const { jwt, link } = await scene();
  for (const audience of [[], [''], ['x'.repeat(200_000)], Array.from({ length: 40 }, () => 'a')]) {
    await assert.rejects(jwt(audience), { code: 'HANSA_BAD_REQUEST' });
  }
  assert.deepEqual(link.batches, []);
});

suite('a workload that requests very many tokens', () => {
  test('is refused beyond a rate, and another one is not', async () => {
    const { issuer, jwt, settled, clock } = await scene();
    const other = { ...web, uid: 'uid-other', id: SpiffeId.parse('spiffe://lubeck.example/other') };
    const wanted = Array.from({ length: 520 }, (_, at) => issuer.issueJwt(web, [`a${at}`]));
    const results = await settled(Promise.allSettled(wanted));
    const refusals = results.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    assert.deepEqual(
      refusals.map((error: HansaError) => error.code),
      Array.from({ length: 20 }, () => 'HANSA_TOO_MANY_REQUESTS'),
    );
    await jwt(['db'], other);
    await clock.advance(1_000);
    await jwt(['later']);
  });

  test('does not make the agent send more messages than the site allows', async () => {
    const { issuer, link, clock } = await scene();
    link.jwt = () => ({ token: 'nothing' });
    const startMs = clock.monotonic();
    let at = 0;
    // Forty workloads, each as fast as it may.
    while (clock.monotonic() - startMs < 20_000) {
      const uid = `uid-w${at++ % 40}`;
      const token = issuer.issueJwt({ ...web, uid }, [`a${at}`]);
      token.catch(() => undefined);
      await clock.advance(2);
    }
    const seconds = (clock.monotonic() - startMs) / 1000;
    const allowed = messageBurst + seconds * messagesPerSecond;
    assert.ok(link.batches.length < allowed * 0.6, `${link.batches.length} of ${allowed}`);
    assert.ok(link.batches.length > 1_000);
  });

  test('delays no renewal of certificates', async () => {
    const { issuer, link, random, clock } = await scene();
    let open = (): void => undefined;
    link.gate = new Promise((resolve) => (open = resolve));
    for (let at = 0; at < 400; at++) issuer.issueJwt(web, [`a${at}`]).catch(() => undefined);
    await clock.advance(1);
    const svid = issuer.issue(web, await generateP256(random));
    await clock.advance(1);
    open();
    await svid;
    assert.deepEqual(link.certificates.slice(0, 5), [0, 0, 0, 0, 1]);
  });
});
