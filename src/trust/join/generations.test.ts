import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { suite, test } from 'node:test';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { PublicKey } from '../../core/identity/x509/keys.ts';
import { type Forged, forgeLeaf, forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { isSameJoin, judgeRenewal } from './generations.ts';
import type { SvidJudgement } from './judge-join.ts';
import type { Member } from './members.ts';

const crane = 'spiffe://lubeck.example/hansa/agent/crane-1';
const root = forgeRoot('lubeck.example');
const newKey = (): PublicKey =>
  PublicKey.of(generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).privateKey);
const keyOf = ({ key }: Forged): string => PublicKey.of(key).fingerprint;

const [oldest, previous, newest] = ['01', '02', '03'].map((serial) =>
  forgeLeaf(root, crane, { serial: Buffer.from(serial, 'hex') }),
) as [Forged, Forged, Forged];
const notAfterMs = newest.certificate.notAfterMs;
const validMs = notAfterMs - 1000;
const expiredMs = notAfterMs + 1000;

const member: Member = {
  role: 'agent',
  name: 'crane-1',
  token: 'machines',
  provenBy: 'join-token:machines',
  joinedAtMs: 0,
  renewedAtMs: 0,
  generation: 3,
  serial: newest.certificate.serialHex,
  previousSerial: previous.certificate.serialHex,
  key: keyOf(newest),
  previousKey: keyOf(previous),
  notAfterMs,
};

/** The key of this SVID signed. `proven`: an authority of the site signed the SVID. */
function judged({ certificate }: Forged, isProven = true, id = crane): SvidJudgement {
  const held = { id: SpiffeId.parse(id), leaf: certificate };
  return {
    presented: certificate,
    held,
    proven: isProven ? held : undefined,
    refusals: isProven ? [] : [{ reason: 'bad-certificate', message: 'it is rejected' }],
  };
}
const reasons = (judgement: ReturnType<typeof judgeRenewal>): readonly string[] =>
  judgement.refusals.map(({ reason }) => reason);

suite('a renewal', () => {
  test('with the newest SVID leads to the next generation', () => {
    const asked = { generation: 3, publicKey: newKey() };
    const { renewal, refusals } = judgeRenewal(member, judged(newest), asked, validMs);
    assert.deepEqual(refusals, []);
    assert.deepEqual(renewal?.next, {
      generation: 4,
      previousSerial: newest.certificate.serialHex,
      previousKey: keyOf(newest),
    });
    assert.deepEqual([renewal?.reattests, renewal?.repeats], [false, false]);
  });

  for (const [what, isProven, nowMs] of [
    ['expired', true, expiredMs],
    ['lost its authority', false, validMs],
    ['expired and lost its authority', false, expiredMs],
  ] as const) {
    test(`with the key of the newest SVID, which ${what}, is a re-attestation`, () => {
      const asked = { generation: 3, publicKey: newKey() };
      const { renewal } = judgeRenewal(member, judged(newest, isProven), asked, nowMs);
      assert.equal(renewal?.reattests, true);
      assert.equal(renewal?.next.generation, 4);
    });
  }

  test('in the last second of the SVID is no re-attestation', () => {
    const asked = { generation: 3, publicKey: newKey() };
    const { renewal } = judgeRenewal(member, judged(newest), asked, notAfterMs + 999);
    assert.equal(renewal?.reattests, false);
  });

  test('that is repeated keeps its generation, for the same new key only', () => {
    const same = { generation: 2, publicKey: PublicKey.of(newest.key) };
    for (const [isProven, nowMs] of [
      [true, validMs],
      [false, expiredMs],
    ] as const) {
      const { renewal } = judgeRenewal(member, judged(previous, isProven), same, nowMs);
      assert.deepEqual([renewal?.repeats, renewal?.next.generation], [true, 3]);
      assert.equal(renewal?.next.previousKey, keyOf(previous));
    }
    const other = { generation: 2, publicKey: newKey() };
    assert.deepEqual(reasons(judgeRenewal(member, judged(previous), other, validMs)), [
      'old-generation',
    ]);
  });

  test('of a record without the previous key needs an authentic previous SVID', () => {
    const { previousKey: _none, ...older } = member;
    const same = { generation: 2, publicKey: PublicKey.of(newest.key) };
    assert.ok(judgeRenewal(older, judged(previous), same, expiredMs).renewal);
    const forged = judgeRenewal(older, judged(previous, false), same, expiredMs);
    assert.equal(forged.renewal, undefined);
  });

  for (const generation of [0, 1, 2, 3, 4, Number.MAX_SAFE_INTEGER]) {
    test(`with an older key is refused and reported, whatever it claims (${generation})`, () => {
      for (const publicKey of [newKey(), PublicKey.of(newest.key), undefined]) {
        const asked = { generation, publicKey };
        const judgement = judgeRenewal(member, judged(oldest), asked, validMs);
        assert.equal(judgement.renewal, undefined);
        assert.deepEqual(reasons(judgement), ['old-generation']);
        assert.equal(judgement.older?.leaf.serialHex, oldest.certificate.serialHex);
      }
    });
  }

  test('with an older SVID that no authority of the site signed is refused, and no report', () => {
    const asked = { generation: 1, publicKey: newKey() };
    const judgement = judgeRenewal(member, judged(oldest, false), asked, validMs);
    assert.equal(judgement.older, undefined);
    assert.deepEqual(reasons(judgement), ['bad-certificate', 'old-generation']);
  });

  test('with the newest key claims its own generation only', () => {
    for (const generation of [0, 2, 4]) {
      const asked = { generation, publicKey: newKey() };
      assert.equal(judgeRenewal(member, judged(newest), asked, validMs).renewal, undefined);
    }
  });

  for (const [what, kept, id] of [
    ['of a member that was forgotten', undefined, crane],
    ['with the SVID of another agent', member, 'spiffe://lubeck.example/hansa/agent/crane-2'],
    ['with the SVID of a bot', member, 'spiffe://lubeck.example/hansa/bot/crane-1'],
    ['with the SVID of a workload', member, 'spiffe://lubeck.example/crane-1'],
  ] as const) {
    test(`${what} is refused`, () => {
      const asked = { generation: 3, publicKey: newKey() };
      const judgement = judgeRenewal(kept, judged(newest, true, id), asked, validMs);
      assert.equal(judgement.renewal, undefined);
      assert.deepEqual(reasons(judgement), ['unknown-member']);
    });
  }

  test('without a signature of the presented key is refused', () => {
    const unsigned = { ...judged(newest), held: undefined, proven: undefined };
    const asked = { generation: 3, publicKey: newKey() };
    assert.equal(judgeRenewal(member, unsigned, asked, validMs).renewal, undefined);
  });
});

suite('a repeated join', () => {
  const first = { ...member, generation: 1 };
  const publicKey = PublicKey.of(newest.key);
  const { role, name, token, provenBy } = first;
  const asked = { role, name, token, provenBy, publicKey };

  test('with the same proof and key is the same member', () => {
    assert.equal(isSameJoin(first, asked), true);
  });

  for (const [what, more] of [
    ['another key', { publicKey: newKey() }],
    ['another token', { token: 'others' }],
    ['another proof', { provenBy: 'spiffe://bruges.example/ci' }],
    ['another name', { name: 'crane-2' }],
    ['another role', { role: 'bot' }],
  ] as const) {
    test(`with ${what} is another member`, () => {
      assert.equal(isSameJoin(first, { ...asked, ...more }), false);
    });
  }

  test('of a member that has renewed since is refused', () => {
    assert.equal(isSameJoin(member, asked), false);
  });
});
