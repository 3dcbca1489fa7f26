import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { JoinToken } from '../../api/kinds/join-token.ts';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { generateP256 } from '../../core/identity/x509/keys.ts';
import { tokenController } from '../controllers/token-controller.ts';
import { joinBySecret, joinBySvid } from '../client/join-client.ts';
import { decodeSecret } from './secret.ts';
import { ciToken, joinSite, makeSecret, runner, type TestJoinSite } from './test-join-site.ts';

const svid = { chain: [runner.certificate], key: runner.key };
const used = {
  code: 'HANSA_FORBIDDEN',
  message: /is single-use, and it was used at .*tell the operator/,
};
const uniform = {
  code: 'HANSA_FORBIDDEN',
  message: /^The site at \S+ says: The join is rejected\. /,
};

suite('a token', () => {
  let site: TestJoinSite;
  let other: TestJoinSite;
  let count = 0;

  before(async () => {
    site = await joinSite();
    other = await joinSite({ replicaOf: site });
  });
  after(async () => {
    await other.stop();
    await site.stop();
  });

  const parts = async (at = site) => ({
    server: { url: at.url, bundle: at.authority.bundle },
    clock: systemClock,
    random: systemRandom,
    key: await generateP256(systemRandom),
  });
  /** The name of a new token, known at both replicas. */
  const token = async (spec: Partial<JoinToken['spec']>): Promise<string> => {
    const name = `token-${++count}`;
    await site.createToken(name, { ...ciToken, ...spec });
    await caughtUp();
    return name;
  };
  /** A commit reads the changes of the other replica. */
  const caughtUp = async (): Promise<void> => {
    for (const { store } of [site, other]) {
      await store.commit({
        put: [{ collection: 'test.turns', name: 'turn', encode: () => Buffer.from('{}') }],
      });
    }
  };
  const agent = (name: string, as: string) => ({ token: name, role: 'agent', name: as });
  const bot = (name: string) => ({ token: name, role: 'bot', name: '' });

  suite('for single use', () => {
    test('admits one agent, also under another name, and tells the second why', async () => {
      const name = await token({ singleUse: true });
      const first = await parts();
      await joinBySvid(first, agent(name, `a-${name}`), svid);
      for (const as of [`a-${name}`, `b-${name}`]) {
        await assert.rejects(joinBySvid(await parts(), agent(name, as), svid), used);
        assert.match(
          site.denials.at(-1)?.reason ?? '',
          new RegExp(`^the token is single-use, and agent/a-${name} used it at `),
        );
      }
      await assert.rejects(joinBySvid(await parts(), bot(name), svid), used);
      assert.equal(site.members.get(`agent/b-${name}`), undefined);
    });

    for (const role of ['agent', 'bot'] as const) {
      test(`gives the same ${role} its certificate again after a lost answer`, async () => {
        const name = await token({ singleUse: true });
        const wish = role === 'agent' ? agent(name, `a-${name}`) : bot(name);
        const first = await parts();
        const joined = await joinBySvid(first, wish, svid);
        const again = await joinBySvid(first, wish, svid);
        assert.equal(again.instance, joined.instance);
        assert.equal(again.generation, 1n);
        await assert.rejects(joinBySvid(await parts(), wish, svid), used);
      });
    }

    test('admits one of many that join at two replicas at once', async () => {
      for (const role of ['agent', 'bot'] as const) {
        const name = await token({ singleUse: true });
        const all = await Promise.all([site, other, site, other].map((at) => parts(at)));
        const results = await Promise.allSettled(
          all.map((each, at) =>
            joinBySvid(each, role === 'agent' ? agent(name, `${name}-${at}`) : bot(name), svid),
          ),
        );
        assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
        for (const result of results) {
          if (result.status === 'rejected') assert.match(String(result.reason), /single-use/);
        }
        await caughtUp();
        const members = site.members.list().filter(({ member }) => member.token === name);
        assert.equal(members.length, 1);
      }
    });

    test('stays used when its member is forgotten, and a new token of its name is unused', async () => {
      const name = await token({ singleUse: true });
      const first = await parts();
      const joined = await joinBySvid(first, agent(name, `a-${name}`), svid);
      await site.members.forget(joined.instance, []);
      await assert.rejects(joinBySvid(first, agent(name, `a-${name}`), svid), used);
      await site.store.commit({ delete: [{ collection: 'jointokens', name }] });
      await site.createToken(name, { ...ciToken, singleUse: true });
      await joinBySvid(await parts(), agent(name, `a-${name}`), svid);
      await assert.rejects(joinBySvid(await parts(), agent(name, `b-${name}`), svid), used);
    });

    test('does not tell a stranger that it was used', async () => {
      const name = 'one-machine';
      await site.createToken(name, {
        method: 'secret',
        roles: ['agent'],
        expiresAt: '2099-01-01T00:00:00Z',
        singleUse: true,
      });
      const secret = decodeSecret(await makeSecret(site, name));
      await joinBySecret(await parts(), agent(name, `a-${name}`), secret);
      const wrong = Buffer.from(secret);
      wrong.writeUInt8(wrong.readUInt8(0) ^ 1, 0);
      await assert.rejects(joinBySecret(await parts(), agent(name, 'x'), wrong), uniform);
      await assert.rejects(joinBySecret(await parts(), agent(name, 'x'), secret), used);
      await assert.rejects(makeSecret(site, name), {
        code: 'HANSA_BAD_REQUEST',
        message: new RegExp(`agent/a-${name} used it`),
      });
    });

    test('says in its status who used it, and its use is deleted with it', async () => {
      const name = await token({ singleUse: true });
      const controller = tokenController(site);
      const ready = async () => {
        await controller.reconcile(name, {} as never);
        const status = await site.tokenStatus(name);
        return status?.conditions?.find(({ type }) => type === 'Ready');
      };
      assert.equal((await ready())?.status, 'True');
      await joinBySvid(await parts(), agent(name, `a-${name}`), svid);
      const usedUp = await ready();
      assert.deepEqual([usedUp?.status, usedUp?.reason], ['False', 'Used']);
      assert.match(usedUp?.message ?? '', new RegExp(`agent/a-${name} used it at `));
      await site.store.commit({ delete: [{ collection: 'jointokens', name }] });
      await controller.reconcile(name, {} as never);
      assert.equal(site.store.get('trust.join-uses', name), undefined);
    });
  });

  test('for one agent admits only its name, and the refusal says nothing', async () => {
    const name = await token({ agentName: 'quay-1' });
    await assert.rejects(joinBySvid(await parts(), agent(name, 'quay-2'), svid), uniform);
    assert.match(site.denials.at(-1)?.reason ?? '', /admits only the agent quay-1, but .*"quay-2"/);
    await joinBySvid(await parts(), agent(name, 'quay-1'), svid);
  });

  test('admits no agent with the name of the machine of the site', async () => {
    const name = await token({});
    await assert.rejects(joinBySvid(await parts(), agent(name, 'site'), svid), uniform);
    assert.match(
      site.denials.at(-1)?.reason ?? '',
      /"site" is the name of the machine of the site/,
    );
  });

  test('gives its labels to agents, as they were at the join, and none to bots', async () => {
    const name = await token({ labels: { quay: 'north' } });
    const first = await parts();
    const joined = await joinBySvid(first, agent(name, `a-${name}`), svid);
    assert.deepEqual(site.members.get(joined.instance)?.member.labels, { quay: 'north' });
    const unlabelled = await token({});
    const plain = await joinBySvid(await parts(), agent(unlabelled, `a-${unlabelled}`), svid);
    assert.equal(site.members.get(plain.instance)?.member.labels, undefined);
    const robot = await joinBySvid(await parts(), bot(name), svid);
    assert.equal(site.members.get(robot.instance)?.member.labels, undefined);
  });

  test('of any kind admits one agent of a name, also at two replicas at once', async () => {
    const name = await token({});
    const all = await Promise.all([site, other, site, other].map((at) => parts(at)));
    const results = await Promise.allSettled(
      all.map((each) => joinBySvid(each, agent(name, `same-${name}`), svid)),
    );
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
    for (const result of results) {
      if (result.status === 'rejected') assert.match(String(result.reason), /already/);
    }
  });
});
