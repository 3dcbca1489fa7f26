import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { hasCode } from '../../core/errors/error.ts';
import { ask, reviewScene, tokenOf } from '../forward/test-scene.ts';
import { userOf } from '../forward/test-tokens.ts';
import type { Acceptance } from '../review/verdict.ts';

const prefix = 'app1.bruges.example:';
const peer = { trustDomain: 'bruges.example', cluster: 'app1', prefix };
const ofPeer = () => reviewScene({ mode: 'jwks', peer, apiAudiences: [] });

suite('a review of a cluster of a peer', () => {
  test('gives every username, uid, group and key of extra the prefix, also from the cache', () => {
    const scene = ofPeer();
    const token = tokenOf(scene, { audiences: ['db'] });
    const { username, uid, groups, extra } = userOf();
    for (const time of ['first', 'second']) {
      const verdict = ask(scene, token, ['db']) as Acceptance;
      assert.deepEqual(verdict.user, {
        username: prefix + username,
        uid: prefix + uid,
        groups: groups.map((group) => prefix + group),
        extra: Object.fromEntries(
          Object.entries(extra).map(([key, value]) => [prefix + key, value]),
        ),
      });
      assert.deepEqual(verdict.audiences, ['db'], time);
    }
  });

  test('without an audience is refused before the token is read', () => {
    const scene = ofPeer();
    for (const audiences of [[], [''], ['db', '']]) {
      assert.throws(
        () => ask(scene, tokenOf(scene, { audiences: ['db', ''] }), audiences),
        (error) => hasCode(error, 'HANSA_BAD_REQUEST') && /spec\.audiences/.test(error.message),
      );
    }
  });

  test('denies a token without an audience, whatever the question names', () => {
    const scene = ofPeer();
    const verdict = ask(scene, tokenOf(scene, { audiences: [] }), [scene.cluster.issuer]);
    assert.ok(!(verdict instanceof Promise));
    assert.equal(verdict.authenticated, false);
  });

  test('denies without a prefix in the words of kube-apiserver', () => {
    const scene = ofPeer();
    assert.deepEqual(ask(scene, tokenOf(scene, { audiences: ['db'] }), ['cache']), {
      authenticated: false,
      error:
        '[invalid bearer token, token audiences ["db"] is invalid for the target audiences ["cache"]]',
    });
  });
});
