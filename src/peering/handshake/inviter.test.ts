import assert from 'node:assert/strict';
import { before, beforeEach, suite, test } from 'node:test';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { socketOwner } from '../../core/access/identity.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { openStore } from '../../core/store/open.ts';
import type { Store } from '../../core/store/store.ts';
import { fingerprintOf, keyDigests } from '../../core/identity/bundle/fingerprint.ts';
import { parseInvitation, previewProof, secretDigest, invitationId } from './invitation.ts';
import { Inviter } from './inviter.ts';
import { documentOf, type TestIdentity, testIdentity } from './test-handshake.ts';

const owner = { caller: socketOwner, origin: { requestId: 'r1' } };

suite('an inviting site', () => {
  let lubeck: TestIdentity;
  let bruges: TestIdentity;
  let mallory: TestIdentity;
  let falseBruges: TestIdentity;
  let clock: VirtualClock;
  let store: Store;
  let inviter: Inviter;
  let denials: AuditDraft[];
  let rows: AuditDraft[];
  let peer: FederationPeer | undefined;

  before(async () => {
    lubeck = await testIdentity('lubeck.example');
    bruges = await testIdentity('bruges.example');
    mallory = await testIdentity('mallory.example');
    falseBruges = await testIdentity('bruges.example', 'mallory');
  });

  beforeEach(async () => {
    clock = new VirtualClock();
    store = await openStore({ driver: 'memory' }, { clock });
    denials = [];
    rows = [];
    peer = undefined;
    inviter = new Inviter({
      trustDomain: lubeck.trustDomain,
      store,
      clock,
      random: new SeededRandom('inviter'),
      audit: {
        record: (draft) => {
          rows.push(draft);
          return { encode: () => Buffer.from('{}') };
        },
        deny: (draft) => denials.push(draft),
      },
      own: lubeck.authority,
      bundles: { bundleFor: () => undefined },
      peers: { get: async () => peer },
      advertiseURL: () => 'https://lubeck.example:8443',
      ownLeaves: () => [lubeck.chain[0]?.fingerprint ?? ''],
      confirmMode: () => 'approver',
      offersFor: () => ['db'],
    });
  });

  const invite = async (
    options: { for?: string; forKeys?: string; ttlSeconds?: number } = {},
  ): Promise<Buffer> => {
    const { for: whom, ...rest } = options;
    const { invitation } = await inviter.invite(owner, {
      ...rest,
      ...(whom === undefined ? {} : { for: TrustDomain.parse(whom) }),
    });
    return parseInvitation(invitation, clock.now()).secret;
  };
  const redeem = (
    secret: Buffer,
    as: TestIdentity,
    changes: {
      name?: string;
      document?: string;
      chain?: TestIdentity['chain'];
      versions?: readonly number[];
    } = {},
  ): Promise<string> =>
    inviter.redeem(
      {
        contractVersions: changes.versions ?? [1],
        secret,
        trustDomain: changes.name === undefined ? as.trustDomain : TrustDomain.parse(changes.name),
        url: new URL('https://bruges.example:8443'),
        bundle: changes.document ?? documentOf([as]),
      },
      { chain: changes.chain ?? as.chain, address: '192.0.2.1' },
    );

  test('keeps the digest of the secret and not the secret', async () => {
    const secret = await invite();
    const entries = store.list('peering.invitations').entries;
    assert.equal(entries.length, 1);
    for (const form of ['hex', 'base64', 'base64url'] as const) {
      assert.ok(!entries[0]?.value.toString().includes(secret.toString(form)));
    }
  });

  test('creates at most 1,000 invitations that wait for a site', async () => {
    const secrets = await Promise.all(Array.from({ length: 1000 }, () => invite()));
    await assert.rejects(invite(), {
      code: 'HANSA_TOO_MANY_REQUESTS',
      message: /1000 are outstanding/,
    });
    await redeem(secrets[0] ?? Buffer.alloc(0), bruges);
    await invite();
  });

  test('is redeemed once, and again by the same site alone', async () => {
    const secret = await invite();
    const id = await redeem(secret, bruges);
    assert.equal(await redeem(secret, bruges), id);
    for (const thief of [mallory, falseBruges]) {
      await assert.rejects(redeem(secret, thief), { code: 'HANSA_INVITATION_REDEEMED' });
    }
    assert.equal(rows.at(-1)?.verb, 'invitation.contest');
    assert.equal(denials.at(-1)?.verb, 'invitation.replay');
    assert.equal(inviter.redemptionOf('bruges.example')?.name, id);
    assert.equal(inviter.redemptionOf('mallory.example'), undefined);
  });

  test('refuses a site that brings no bundle, and leaves the invitation open', async () => {
    const secret = await invite();
    const { revision } = store;
    const message = {
      contractVersions: [1],
      secret,
      trustDomain: bruges.trustDomain,
      url: new URL('https://bruges.example:8443'),
    };
    const stranger = { chain: bruges.chain, address: '192.0.2.1' };
    for (const [hasCsr, why] of [
      [false, /neither a bundle nor a CSR/],
      [true, /only a child of lubeck\.example may do that/],
    ] as const) {
      const request = { ...message, ...(hasCsr ? { hasCsr } : {}) };
      const refusal = { code: 'HANSA_TRUST_MATERIAL', message: why };
      await assert.rejects(inviter.redeem(request, stranger), refusal);
      assert.match(denials.at(-1)?.reason ?? '', why);
    }
    assert.equal(store.revision, revision);
    await redeem(secret, bruges);
  });

  test('keeps the capabilities that both sites have, and what the other site told', async () => {
    const secret = await invite();
    const endpoints = [{ name: 'federation', url: 'https://bruges.example:8443/' }];
    const id = await inviter.redeem(
      {
        contractVersions: [1],
        secret,
        trustDomain: bruges.trustDomain,
        url: new URL('https://bruges.example:8443'),
        bundle: documentOf([bruges]),
        capabilities: ['receipts', 'teleport'],
        extensionSlugs: ['overlay'],
        endpoints,
      },
      { chain: bruges.chain, address: '192.0.2.1' },
    );
    assert.deepEqual(inviter.invitations.get(id)?.value.redeemed?.features, {
      capabilities: ['receipts'],
      extensionSlugs: ['overlay'],
      endpoints,
    });
  });

  test('refuses a site without a common version before it looks at the secret', async () => {
    const secret = await invite();
    const { revision } = store;
    for (const [known, versions] of [
      [secret, [2]],
      [secret, []],
      [Buffer.alloc(32), [2, 1000]],
    ] as const) {
      await assert.rejects(redeem(known, bruges, { versions }), {
        code: 'HANSA_CONTRACT_VERSION',
        message: /Update the older of the two/,
      });
      assert.equal(denials.at(-1)?.reason, 'no contract version in common');
    }
    assert.equal(store.revision, revision);
    const id = await redeem(secret, bruges, { versions: [7, 1] });
    assert.equal(inviter.redemptionOf('bruges.example')?.name, id);
    assert.equal(inviter.redemptionOf('bruges.example')?.value.redeemed?.contractVersion, 1);
  });

  test('gives it to one of several who come at once', async () => {
    const secret = await invite();
    const results = await Promise.allSettled([
      redeem(secret, bruges),
      redeem(secret, mallory),
      redeem(secret, falseBruges),
    ]);
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
  });

  test('refuses who is not what he says, and records each', async () => {
    const own = 'lubeck.example';
    const attempts: Record<string, [() => Promise<string>, RegExp]> = {
      'a secret that nobody gave out': [() => redeem(Buffer.alloc(32), bruges), /does not know it/],
      'our own trust domain': [
        async () => redeem(await invite(), bruges, { name: own }),
        /the trust domain of the inviting site/,
      ],
      'the name of another': [
        async () => redeem(await invite(), mallory, { name: 'bruges.example' }),
        /does not verify its certificate/,
      ],
      "another's bundle": [
        async () =>
          redeem(await invite(), mallory, {
            name: 'bruges.example',
            document: documentOf([bruges]),
          }),
        /does not verify its certificate/,
      ],
      'a bundle with one of our authorities': [
        async () => redeem(await invite(), bruges, { document: documentOf([bruges, lubeck]) }),
        /contains an authority of lubeck\.example/,
      ],
      'a workload': [
        async () => redeem(await invite(), bruges, { chain: bruges.workloadChain }),
        /spiffe:\/\/bruges\.example\/web is not a site/,
      ],
      'no certificate': [
        async () => redeem(await invite(), bruges, { chain: [] }),
        /does not verify its certificate/,
      ],
      'a bundle that is none': [
        async () => redeem(await invite(), bruges, { document: '{}' }),
        /does not verify its certificate/,
      ],
      'an invitation for another': [
        async () => redeem(await invite({ for: 'reval.example' }), bruges),
        /it is not for bruges\.example/,
      ],
    };
    for (const [what, [attempt, why]] of Object.entries(attempts)) {
      const recorded = denials.length;
      const code = /does not know/.test(why.source)
        ? 'HANSA_INVITATION_UNKNOWN'
        : 'HANSA_INVITATION_REFUSED';
      await assert.rejects(attempt, { code, message: why }, what);
      assert.equal(denials.length, recorded + 1, what);
      // Nothing is proven of who was refused.
      assert.equal(denials.at(-1)?.actor.user, 'system:anonymous', what);
    }
    assert.equal(inviter.redemptionOf('bruges.example'), undefined);
  });

  test('refuses a name that is already a peer', async () => {
    const metadata = {
      name: 'bruges.example',
      uid: 'u1',
      resourceVersion: '1',
      generation: 1,
      creationTimestamp: '',
    };
    const spec = { url: 'https://bruges.example', desiredState: 'active' } as const;
    const base = { apiVersion: '', kind: '', metadata, spec };
    peer = { ...base, status: { state: 'suspended' } };
    await assert.rejects(redeem(await invite(), bruges), { message: /is already a peer/ });
    peer = { ...base, status: { state: 'revoked' } };
    const id = await redeem(await invite(), bruges);
    assert.equal(inviter.invitations.get(id)?.value.redeemed?.replaces, 'u1');
    // A crash may leave one without a state: it is not revoked, and nothing takes its place.
    peer = { ...base };
    const beside = await redeem(await invite(), bruges);
    assert.equal(inviter.invitations.get(beside)?.value.redeemed?.replaces, undefined);
  });

  test('refuses one that has expired, but not who redeemed it before', async () => {
    const [late, early] = [await invite({ ttlSeconds: 60 }), await invite({ ttlSeconds: 60 })];
    await redeem(early, bruges);
    await clock.advance(61_000);
    await redeem(early, bruges);
    await assert.rejects(redeem(late, mallory), {
      code: 'HANSA_INVITATION_EXPIRED',
      message: /expired less than a minute ago\. Ask lubeck\.example/,
    });
  });

  test('asks its operator, but for a site that was named and is not spoken of', async () => {
    const confirmation = async (options: { for?: string }): Promise<string | undefined> => {
      const id = await redeem(await invite(options), bruges);
      return inviter.invitations.get(id)?.value.redeemed?.confirmation;
    };
    assert.equal(await confirmation({ for: 'bruges.example' }), undefined);
    assert.match((await confirmation({})) ?? '', /was for any trust domain/);
    const grant = { metadata: { name: 'db' }, spec: { peer: 'bruges.example' } };
    const encode = (): Buffer => Buffer.from(JSON.stringify(grant));
    await store.commit({ put: [{ collection: 'federationgrants', name: 'db', encode }] });
    assert.match(
      (await confirmation({ for: 'bruges.example' })) ?? '',
      /FederationGrant db already names it/,
    );
  });

  test('asks its operator where a Cluster would take the word of that site', async () => {
    for (const [spec, why] of [
      [{ peer: { trustDomain: 'bruges.example', cluster: 'app1' } }, /Cluster far is one of it/],
      [{ spire: { bundlePeers: ['bruges.example'] } }, /Cluster far takes bundles .* from it/],
      [{ peer: { trustDomain: 'riga.example', cluster: 'app1' } }, undefined],
    ] as const) {
      const object = { metadata: { name: 'far' }, spec };
      const encode = (): Buffer => Buffer.from(JSON.stringify(object));
      await store.commit({ put: [{ collection: 'clusters', name: 'far', encode }] });
      const id = await redeem(await invite({ for: 'bruges.example' }), bruges);
      const { confirmation } = inviter.invitations.get(id)?.value.redeemed ?? {};
      if (why === undefined) assert.equal(confirmation, undefined);
      else assert.match(confirmation ?? '', why);
    }
  });

  test('asks its operator where a JoinToken admits machines of that site', async () => {
    for (const [domain, isAsked] of [
      ['bruges.example', true],
      ['bruges.example.org', false],
    ] as const) {
      const spec = { spiffe: { allow: [{ spiffeID: `spiffe://${domain}/ci/*` }] } };
      const object = { metadata: { name: 'machines' }, spec };
      const encode = (): Buffer => Buffer.from(JSON.stringify(object));
      await store.commit({ put: [{ collection: 'jointokens', name: 'machines', encode }] });
      const id = await redeem(await invite({ for: 'bruges.example' }), bruges);
      const { confirmation } = inviter.invitations.get(id)?.value.redeemed ?? {};
      const why = 'the JoinToken machines admits its agents and bots';
      assert.equal(confirmation, isAsked ? why : undefined);
    }
  });

  test('tells about an invitation to whoever knows it, for this connection alone', async () => {
    const digest = secretDigest(await invite({ for: 'bruges.example' }));
    const challenge = Buffer.alloc(32, 5);
    const asked = (leaf: string, key = digest) => ({
      invitation: invitationId(digest),
      challenge,
      proof: previewProof(key, challenge, leaf, 'bruges.example'),
      trustDomain: bruges.trustDomain,
    });
    const stranger = { chain: [], address: undefined };
    const leaf = lubeck.chain[0]?.fingerprint ?? '';
    assert.deepEqual(await inviter.preview(asked(leaf), stranger), {
      contractVersion: 1,
      offers: ['db'],
      confirmation: false,
    });
    const relayed = asked(mallory.chain[0]?.fingerprint ?? '');
    for (const wrong of [
      relayed,
      asked(leaf, Buffer.alloc(32)),
      { ...asked(leaf), invitation: 'f'.repeat(64) },
    ]) {
      await assert.rejects(inviter.preview(wrong, stranger), {
        code: 'HANSA_INVITATION_UNKNOWN',
      });
    }
    assert.equal(denials.length, 3);
    assert.equal(inviter.redemptionOf('bruges.example'), undefined);
  });

  test('makes no invitation for itself, for ever, or for no time', async () => {
    for (const options of [{ for: 'lubeck.example' }, { ttlSeconds: 0 }, { ttlSeconds: 1e6 }]) {
      await assert.rejects(invite(options), { code: 'HANSA_BAD_REQUEST' });
    }
  });

  const fingerprint = ({ authority }: TestIdentity): string =>
    fingerprintOf(keyDigests(authority.bundle));

  suite('that binds an invitation to keys', () => {
    const bound = (): Promise<Buffer> =>
      invite({ for: 'bruges.example', forKeys: fingerprint(bruges) });

    test('refuses other keys of the same name, and stays usable for the right ones', async () => {
      const secret = await bound();
      await assert.rejects(redeem(secret, falseBruges), {
        code: 'HANSA_INVITATION_REFUSED',
        message: /with other keys than this site has .*hansa status/,
      });
      assert.match(denials.at(-1)?.reason ?? '', /is for the fingerprint/);
      const id = await redeem(secret, bruges);
      assert.equal(inviter.redemptionOf('bruges.example')?.name, id);
    });

    test('refuses a thief who puts the right public keys beside its own', async () => {
      await assert.rejects(
        redeem(await bound(), falseBruges, { document: documentOf([bruges, falseBruges]) }),
        { code: 'HANSA_INVITATION_REFUSED' },
      );
    });

    test('admits a site that has added an authority since', async () => {
      const document = documentOf([bruges, falseBruges]);
      assert.ok(await redeem(await bound(), bruges, { document }));
    });

    test('tells the invited site for which keys it is', async () => {
      const forKeys = fingerprint(bruges);
      const { invitation } = await inviter.invite(owner, {
        for: bruges.trustDomain,
        forKeys,
      });
      assert.equal(parseInvitation(invitation, clock.now()).forKeys, forKeys);
    });
  });

  suite('whose invitation is contested', () => {
    const contestOf = (secret: Buffer) =>
      inviter.invitations.get(invitationId(secretDigest(secret)))?.value.contested;

    test('tells the site that came second what to do, and keeps who it was', async () => {
      const secret = await invite({ for: 'bruges.example' });
      await redeem(secret, falseBruges);
      await clock.advance(4 * 60_000);
      await assert.rejects(redeem(secret, bruges), {
        code: 'HANSA_INVITATION_REDEEMED',
        message:
          /a bruges\.example with other keys .* already redeemed it 4 minutes ago\..* ask the operator of lubeck\.example to revoke bruges\.example/,
      });
      assert.deepEqual(contestOf(secret), {
        trustDomain: 'bruges.example',
        fingerprint: fingerprint(bruges),
        address: '192.0.2.1',
        atMs: clock.now(),
      });
      const row = rows.at(-1);
      assert.equal(row?.verb, 'invitation.contest');
      assert.equal(row?.name, 'bruges.example');
      assert.match(row?.reason ?? '', /another site that calls itself bruges\.example/);
    });

    test('notices a thief who brought the public keys of the invited site too', async () => {
      const secret = await invite({ for: 'bruges.example' });
      await redeem(secret, falseBruges, { document: documentOf([falseBruges, bruges]) });
      await assert.rejects(redeem(secret, bruges), { code: 'HANSA_INVITATION_REDEEMED' });
      assert.equal(contestOf(secret)?.fingerprint, fingerprint(bruges));
    });

    test('notices a site of another name that only looks at it', async () => {
      const secret = await invite();
      await redeem(secret, mallory);
      const digest = secretDigest(secret);
      const leaf = lubeck.chain[0]?.fingerprint ?? '';
      const challenge = Buffer.alloc(32, 5);
      const asked = {
        invitation: invitationId(digest),
        challenge,
        proof: previewProof(digest, challenge, leaf, 'bruges.example'),
        trustDomain: bruges.trustDomain,
      };
      await assert.rejects(inviter.preview(asked, { chain: [], address: undefined }), {
        code: 'HANSA_INVITATION_REDEEMED',
        message: /mallory\.example already redeemed it .*\. Ask lubeck\.example for a new one/,
      });
      assert.equal(contestOf(secret)?.trustDomain, 'bruges.example');
    });

    test('writes one record however often it is tried', async () => {
      const secret = await invite({ for: 'bruges.example' });
      await redeem(secret, bruges);
      for (let times = 0; times < 3; times += 1) {
        await assert.rejects(redeem(secret, falseBruges), { code: 'HANSA_INVITATION_REDEEMED' });
      }
      assert.equal(rows.filter(({ verb }) => verb === 'invitation.contest').length, 1);
      assert.equal(denials.length, 2);
    });

    test('records every attempt of several that arrive at the same moment', async () => {
      const secret = await invite({ for: 'bruges.example' });
      await redeem(secret, bruges);
      const attempts = [1, 2, 3].map(() => redeem(secret, falseBruges));
      const told = await Promise.allSettled(attempts);
      assert.ok(told.every(({ status }) => status === 'rejected'));
      assert.equal(contestOf(secret)?.trustDomain, 'bruges.example');
      assert.deepEqual(
        denials.map(({ verb }) => verb),
        ['invitation.replay', 'invitation.replay'],
      );
    });

    test('is not contested by the same site that asks again', async () => {
      const secret = await invite({ for: 'bruges.example' });
      await redeem(secret, bruges);
      await redeem(secret, bruges, { document: documentOf([bruges, falseBruges]) });
      assert.equal(contestOf(secret), undefined);
    });
  });
});
