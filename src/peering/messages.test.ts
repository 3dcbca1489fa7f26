import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { TrustDomain } from '../api/values/trust-domain.ts';
import {
  agreeOnVersion,
  encodeMessage,
  parseAnnouncement,
  parseHeartbeat,
  parsePreviewAnswer,
  parsePreviewRequest,
  parseRedeemAnswer,
  parseRedeemRequest,
} from './messages.ts';

const lubeck = TrustDomain.parse('lubeck.example');
const bruges = TrustDomain.parse('bruges.example');

const offer = {
  name: 'db',
  spiffeID: 'spiffe://lubeck.example/db',
  grantedTo: ['spiffe://bruges.example/web'],
};

function heartbeat(changes: object): Buffer {
  return Buffer.from(
    JSON.stringify({ contractVersion: 1, bundleSequence: 3, offers: [offer], ...changes }),
  );
}

suite('messages between sites', () => {
  test('read back as they were written', () => {
    const preview = {
      invitation: 'a'.repeat(64),
      challenge: Buffer.alloc(32, 1),
      proof: Buffer.alloc(32, 2),
      trustDomain: bruges,
    };
    const readPreview = parsePreviewRequest(encodeMessage(preview));
    assert.deepEqual(readPreview.challenge, preview.challenge);
    assert.equal(readPreview.trustDomain.name, 'bruges.example');
    const redeem = {
      contractVersions: [1],
      secret: Buffer.alloc(32, 3),
      trustDomain: bruges,
      url: new URL('https://bruges.example:8443/'),
      bundle: '{"keys":[]}',
    };
    const readRedeem = parseRedeemRequest(encodeMessage(redeem));
    assert.deepEqual(readRedeem.secret, redeem.secret);
    assert.equal(readRedeem.url.href, redeem.url.href);
    const answer = { state: 'pending', contractVersion: 1 } as const;
    assert.deepEqual(parseRedeemAnswer(encodeMessage(answer)), answer);
    const told = { contractVersion: 1, offers: ['db'], confirmation: true };
    assert.deepEqual(parsePreviewAnswer(encodeMessage(told)), told);
    const beat = { contractVersion: 1, bundleSequence: 3, offers: [offer], clusters: ['app1'] };
    assert.deepEqual(parseHeartbeat(encodeMessage(beat), lubeck, bruges), beat);
    assert.deepEqual(parseAnnouncement(encodeMessage({ bundleSequence: 7 })), {
      bundleSequence: 7,
    });
  });

  test('of a peer speak for its own workloads, and of ours alone', () => {
    const wrong: readonly object[] = [
      { offers: [{ ...offer, spiffeID: 'spiffe://novgorod.example/db' }] },
      { offers: [{ ...offer, spiffeID: 'spiffe://bruges.example/db' }] },
      { offers: [{ ...offer, grantedTo: ['spiffe://novgorod.example/web'] }] },
      { offers: [{ ...offer, name: '../db' }] },
      { offers: [offer, offer] },
      { offers: Array.from({ length: 257 }, (_, i) => ({ ...offer, name: `o${i}` })) },
      { offers: 'db' },
      { clusters: 'app1' },
      { clusters: ['app1', 'app1'] },
      { clusters: ['../app1'] },
      { clusters: ['app1.novgorod'] },
      { clusters: [1] },
      { clusters: Array.from({ length: 129 }, (_, i) => `app${i}`) },
      { bundleSequence: -1 },
      { bundleSequence: 1.5 },
      { contractVersion: 0 },
    ];
    for (const changes of wrong) {
      assert.throws(
        () => parseHeartbeat(heartbeat(changes), lubeck, bruges),
        { code: 'HANSA_BAD_REQUEST' },
        JSON.stringify(changes).slice(0, 100),
      );
    }
    assert.ok(
      parseHeartbeat(heartbeat({ offers: [{ ...offer, grantedTo: ['*'] }] }), lubeck, bruges),
    );
  });

  test('may tell which bundle of the receiver is held, or leave it out', () => {
    const holds = { sequence: 7, hash: 'ab'.repeat(32) };
    assert.deepEqual(parseHeartbeat(heartbeat({ holds }), lubeck, bruges).holds, holds);
    assert.equal('holds' in parseHeartbeat(heartbeat({}), lubeck, bruges), false);
    for (const wrong of [
      null,
      7,
      [],
      { sequence: 7 },
      { ...holds, sequence: -1 },
      { ...holds, sequence: '7' },
      { ...holds, hash: 'ab' },
      { ...holds, hash: 'AB'.repeat(32) },
    ]) {
      assert.throws(() => parseHeartbeat(heartbeat({ holds: wrong }), lubeck, bruges), {
        code: 'HANSA_BAD_REQUEST',
      });
    }
  });

  test('may tell the outcomes of soft steps, and nothing that is none', () => {
    const answer = {
      state: 'accepted',
      contractVersion: 1,
      node_enrollment: null,
      attach: { outcome: 'skipped', message: 'no overlay' },
      governance: { outcome: 'done' },
      warnings: ['its certificate expires soon'],
    } as const;
    const { node_enrollment: _null, ...told } = answer;
    assert.deepEqual(parseRedeemAnswer(encodeMessage(answer)), told);
    for (const wrong of [
      { attach: { outcome: 'perfect' } },
      { attach: 'done' },
      { governance: { outcome: 'done', message: 'm'.repeat(513) } },
      { warnings: ['w'.repeat(513)] },
      { warnings: Array.from({ length: 33 }, () => 'w') },
      { warnings: [7] },
    ]) {
      assert.throws(() => parseRedeemAnswer(Buffer.from(JSON.stringify({ ...answer, ...wrong }))), {
        code: 'HANSA_BAD_REQUEST',
      });
    }
  });

  test('may tell the features of a site, each name once and short', () => {
    const features = {
      capabilities: ['grants', 'receipts'],
      extensionSlugs: ['overlay-1.0'],
      endpoints: [{ name: 'federation', url: 'https://bruges.example:8443/' }],
    };
    const answer = { state: 'accepted', contractVersion: 1, ...features } as const;
    assert.deepEqual(parseRedeemAnswer(encodeMessage(answer)), answer);
    const long = Array.from({ length: 65 }, (_, i) => `c${i}`);
    const [endpoint] = features.endpoints;
    for (const wrong of [
      { capabilities: ['grants', 'grants'] },
      { capabilities: long },
      { capabilities: 'grants' },
      { capabilities: ['Grants'] },
      { capabilities: ['a'.repeat(64)] },
      { capabilities: [7] },
      { extensionSlugs: ['a b'] },
      { endpoints: [endpoint, endpoint] },
      { endpoints: [{ name: 'x', url: 'http://bruges.example' }] },
      { endpoints: [{ name: 'x', url: 'https://user@bruges.example' }] },
      { endpoints: long.map((name) => ({ ...endpoint, name })) },
      { endpoints: {} },
    ]) {
      assert.throws(
        () => parseRedeemAnswer(Buffer.from(JSON.stringify({ ...answer, ...wrong }))),
        { code: 'HANSA_BAD_REQUEST' },
        JSON.stringify(wrong).slice(0, 100),
      );
    }
  });

  test('with fields of a later version are read without them', () => {
    const read = parseHeartbeat(heartbeat({ checkpoint: 'later' }), lubeck, bruges);
    assert.deepEqual(Object.keys(read).toSorted(), ['bundleSequence', 'contractVersion', 'offers']);
  });

  test('that are anything else are refused as such, never otherwise', () => {
    const parsers = [
      parsePreviewRequest,
      parsePreviewAnswer,
      parseRedeemRequest,
      parseRedeemAnswer,
      parseAnnouncement,
      (body: Uint8Array) => parseHeartbeat(body, lubeck, bruges),
    ];
    const bodies = fc.oneof(
      fc.json().map((text) => Buffer.from(text)),
      fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes)),
      fc
        .record({
          offers: fc.anything(),
          url: fc.anything(),
          secret: fc.anything(),
          trustDomain: fc.anything(),
          contractVersion: fc.anything(),
          bundleSequence: fc.anything(),
        })
        .map((value) =>
          Buffer.from(
            JSON.stringify(value, (_key, part: unknown) =>
              typeof part === 'bigint' ? String(part) : part,
            ) ?? '',
          ),
        ),
    );
    fc.assert(
      fc.property(bodies, fc.constantFrom(...parsers), (body, parse) => {
        try {
          parse(body);
        } catch (error) {
          assert.equal((error as { code?: string }).code, 'HANSA_BAD_REQUEST');
        }
      }),
      { numRuns: 500 },
    );
  });

  test('are of a version that both have', () => {
    assert.equal(agreeOnVersion([3, 1], 'bruges.example'), 1);
    assert.equal(agreeOnVersion([1, 2, 4], 'bruges.example', [3, 2, 1]), 2);
    for (const theirs of [[2], [], [1000]]) {
      assert.throws(() => agreeOnVersion(theirs, 'bruges.example'), {
        code: 'HANSA_CONTRACT_VERSION',
        message: /This site supports the versions 1 .* and bruges\.example supports /,
      });
    }
  });
});
