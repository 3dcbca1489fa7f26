import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Resource } from '../../api/object.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Entry } from '../../core/store/store.ts';
import { admitGrant } from './admit-grant.ts';

const spec = {
  peer: 'bruges.example',
  offers: ['db'],
  nodeInstances: { ids: ['spiffe://bruges.example/web'] },
  networks: { unrestricted: true },
  sourceCIDRs: { cidrs: ['192.0.2.0/24'] },
};
const known = new Set(['federationpeers/bruges.example', 'serviceoffers/db']);
const store = {
  get: (collection: string, name: string) =>
    known.has(`${collection}/${name}`) ? ({ name } as Entry) : undefined,
};

function admitted(given: object, live?: object): readonly string[] {
  const warnings: string[] = [];
  const of = (more: object) =>
    ({ metadata: { name: 'bruges-db' }, spec: { ...spec, ...more } }) as unknown as Resource;
  admitGrant(of(given), live === undefined ? undefined : of(live), store, (text) =>
    warnings.push(text),
  );
  return warnings;
}

const refused =
  (why: RegExp) =>
  (caught: unknown): boolean =>
    caught instanceof HansaError && caught.code === 'HANSA_INVALID' && why.test(caught.message);

suite('a grant that is written', () => {
  test('is taken in silence where everything that it names is there', () => {
    assert.deepEqual(admitted({}), []);
  });

  test('warns that it allows nothing where an axis is left out', () => {
    const axes = { nodeInstances: undefined, networks: {}, sourceCIDRs: { cidrs: [] } };
    assert.deepEqual(admitted(axes), [
      'the grant allows nothing: spec.nodeInstances, spec.networks and spec.sourceCIDRs match nothing. Add values to each, or set unrestricted: true',
    ]);
    assert.match(
      admitted({ networks: undefined }).join(),
      /^the grant allows nothing: spec\.networks matches nothing\./,
    );
  });

  for (const [id, why] of [
    ['spiffe://novgorod.example/web', /ids\[0\].*in the trust domain novgorod\.example/],
    ['spiffe://bruges.example.evil/web', /in the trust domain bruges\.example\.evil/],
    ['spiffe://bruges.example/a/../web', /segment of its path is \./],
    ['spiffe://bruges.example/web/', /ends with a slash/],
    ['spiffe://Bruges.example/web', /is not a SPIFFE ID/],
    ['https://bruges.example/web', /does not start with spiffe/],
    ['', /is not a SPIFFE ID/],
  ] as const) {
    test(`is refused with the identity ${JSON.stringify(id)}`, () => {
      assert.throws(() => admitted({ nodeInstances: { ids: [id] } }), refused(why));
    });
  }

  for (const cidr of ['10.0.0.1/8', '10.0.0.0/33', '2001:db8::1/32', '10.0.0.0', 'x/8']) {
    test(`is refused with the source ${cidr}, which would match nothing`, () => {
      assert.throws(
        () => admitted({ sourceCIDRs: { cidrs: ['192.0.2.0/24', cidr] } }),
        refused(/cidrs\[1\]/),
      );
    });
  }

  test('of an older version can be changed elsewhere', () => {
    const old = {
      nodeInstances: { ids: ['spiffe://novgorod.example/web'] },
      sourceCIDRs: { cidrs: ['10.0.0.1/8'] },
    };
    assert.deepEqual(admitted({ ...old, scopes: ['read'] }, old), []);
    assert.throws(
      () => admitted({ ...old, peer: 'reval.example' }, old),
      refused(/reval\.example/),
    );
  });

  test('warns of clusters that are not there yet, and of clusters that no site may use', () => {
    const [site, cluster, ...rest] = admitted({ clusters: ['app1'] });
    assert.match(site ?? '', /^spec\.clusters: .*add spiffe:\/\/bruges\.example\/hansa\/site/);
    assert.match(cluster ?? '', /^spec\.clusters: this site has no Cluster app1 yet/);
    assert.deepEqual(rest, []);
    assert.deepEqual(admitted({ services: ['shop/web'] }), []);
  });

  test('warns of a peer and of offers that are not there yet', () => {
    const [peer, offer] = admitted({
      peer: 'reval.example',
      nodeInstances: { ids: ['spiffe://reval.example/web'] },
      offers: ['db', 'metrics'],
    });
    assert.match(peer ?? '', /reval\.example is not a peer of this site yet/);
    assert.match(offer ?? '', /no ServiceOffer metrics yet/);
  });
});
