import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { workloadEntryKind } from '../../../api/kinds/workload-entry.ts';
import { apiVersion } from '../../../api/object.ts';
import { pruneObject, type Untyped, validateObject } from '../../../api/resource-schema.ts';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { admitEntry } from './admit-entry.ts';
import {
  askedTrustDomains,
  asksFor,
  EntryIndex,
  hintsOf,
  type UsableEntry,
  usableEntry,
  type WorkloadEntry,
} from './matching-entries.ts';

const lubeck = TrustDomain.parse('lubeck.example');

function object(spec: unknown): WorkloadEntry {
  return { apiVersion, kind: 'WorkloadEntry', metadata: { name: 'web' }, spec } as WorkloadEntry;
}

const good = {
  spiffeID: 'spiffe://lubeck.example/web',
  selectors: ['unix:uid:1000'],
  federatesWith: [],
  ttlSeconds: 3600,
};

function problems(spec: unknown): string[] {
  const pruned = pruneObject(workloadEntryKind, object(spec) as unknown as Untyped);
  assert.deepEqual(pruned.unknown, []);
  return validateObject(workloadEntryKind, pruned.object).map((error) => error.field);
}

describe('the schema of a WorkloadEntry', () => {
  test('takes every kind of selector, "*" and a path with upper case', () => {
    assert.deepEqual(
      problems({
        spiffeID: 'spiffe://lubeck.example/Team/web.1',
        selectors: [
          'unix:uid:0',
          'unix:gid:4294967295',
          'unix:user:web',
          'unix:group:www-data',
          'unix:supplementary_group:ops',
          'unix:supplementary_gid:27',
          'unix:supplementary_gid:4',
          'unix:path:/opt/My App/web',
          `unix:sha256:${'0af'.repeat(21)}0`,
          'systemd:id:getty@tty1.service',
          'cgroup:/system.slice/system-getty.slice/getty@tty1.service',
        ],
        federatesWith: ['*', 'bruges_1.example'],
        federatesWithSelector: {
          matchLabels: { zone: 'north', 'example.com/tier': '' },
          matchExpressions: [{ key: 'old', operator: 'DoesNotExist' }],
        },
        hint: 'internal',
        dnsNames: ['web.lubeck.example', '*.web.lubeck.example'],
        ttlSeconds: 60,
      }),
      [],
    );
  });

  for (const spiffeID of [
    'spiffe://lubeck.example/a/../hansa/site',
    'spiffe://lubeck.example/./web',
    'spiffe://lubeck.example/..',
    'spiffe://lubeck.example',
    'spiffe://lubeck.example/',
    'spiffe://lubeck.example/a//b',
    'spiffe://LUBECK.example/web',
    'spiffe://lubeck.example:8443/web',
    'https://lubeck.example/web',
    'spiffe://lubeck.example/web?x=1',
    'spiffe://lubeck.example/web%2fa',
    'spiffe://lubeck.example/web\n',
  ]) {
    test(`refuses the identity ${JSON.stringify(spiffeID)}`, () => {
      assert.notDeepEqual(problems({ ...good, spiffeID }), []);
    });
  }

  for (const selectors of [
    [],
    ['unix:uid:-1'],
    ['unix:uid:01'],
    ['unix:uid:1000 '],
    ['unix:user:'],
    ['unix:user:we b'],
    ['unix:user:-web'],
    ['unix:group:web,db'],
    ['unix:name:web'],
    ['unix:supplementary_gid:web'],
    [`unix:sha256:${'0'.repeat(63)}`],
    [`unix:sha256:${'A'.repeat(64)}`],
    ['systemd:id:web'],
    ['systemd:id:web.socket'],
    ['systemd:id:a/web.service'],
    ['systemd:fragment_path:/lib/systemd/system/web.service'],
    ['cgroup:web.service'],
    ['cgroup:'],
    ['unix:path:web'],
    ['unix:path:'],
    ['k8s:ns:default'],
    ['uid:1000'],
    ['unix:uid:1', 'unix:uid:1'],
  ]) {
    test(`refuses the selectors ${JSON.stringify(selectors)}`, () => {
      assert.notDeepEqual(problems({ ...good, selectors }), []);
    });
  }

  test('refuses times to live out of range and federations that are no trust domains', () => {
    for (const ttlSeconds of [0, 59, 3601]) {
      assert.deepEqual(problems({ ...good, ttlSeconds }), ['spec.ttlSeconds']);
    }
    for (const name of [
      '',
      'Web.example',
      'web..example',
      '-web',
      '*',
      'a.*.example',
      'web example',
    ]) {
      assert.deepEqual(problems({ ...good, dnsNames: [name] }), ['spec.dnsNames[0]']);
    }
    assert.ok(problems({ ...good, hint: 'x'.repeat(257) }).includes('spec.hint'));
    for (const one of ['', 'Bruges', 'spiffe://bruges.example', 'a b']) {
      assert.deepEqual(problems({ ...good, federatesWith: [one] }), ['spec.federatesWith[0]']);
    }
  });
});

describe('an entry asks', () => {
  const federationState = {
    federations: ['a.example', 'b.example', 'c.example'],
    labels: new Map([
      ['a.example', { zone: 'north' }],
      ['b.example', { zone: 'south' }],
      ['c.example', undefined],
    ]),
  };
  const asked = (spec: object): readonly string[] => {
    const found = usableEntry(object({ ...good, ...spec }), lubeck);
    assert.ok('entry' in found, JSON.stringify(found));
    const names = askedTrustDomains(found.entry, federationState);
    // Whether it asks for one is told without looking at all.
    for (const name of [...federationState.federations, 'other.example', 'stranger.example']) {
      const isAsked =
        names.includes(name) || (names.includes('*') && federationState.labels.has(name));
      assert.equal(asksFor(found.entry, name, federationState), isAsked, name);
    }
    return names;
  };
  const expression = (key: string, operator: string, ...values: string[]) => ({
    federatesWithSelector: {
      matchExpressions: [{ key, operator, ...(values.length > 0 && { values }) }],
    },
  });

  test('for the trust domains that it names and those whose labels match', () => {
    assert.deepEqual(asked({}), []);
    assert.deepEqual(asked({ federatesWithSelector: {} }), federationState.federations);
    assert.deepEqual(
      asked({
        federatesWith: ['c.example', 'other.example'],
        federatesWithSelector: { matchLabels: { zone: 'north' } },
      }),
      ['c.example', 'other.example', 'a.example'],
    );
    assert.deepEqual(asked(expression('zone', 'In', 'north', 'south')), ['a.example', 'b.example']);
    assert.deepEqual(asked(expression('zone', 'NotIn', 'north')), ['b.example', 'c.example']);
    assert.deepEqual(asked(expression('zone', 'Exists')), ['a.example', 'b.example']);
    assert.deepEqual(asked(expression('zone', 'DoesNotExist')), ['c.example']);
  });

  for (const federatesWithSelector of [
    expression('zone', 'In').federatesWithSelector,
    expression('zone', 'Exists', 'north').federatesWithSelector,
    expression('zone', 'In', 'a),!zone').federatesWithSelector,
    expression('a,b', 'Exists').federatesWithSelector,
    { matchLabels: { zone: 'north,old' } },
    { matchLabels: { 'zone in (a)': '' } },
  ]) {
    test(`never by the selector ${JSON.stringify(federatesWithSelector)}`, () => {
      assert.throws(
        () => admitEntry(object({ ...good, federatesWithSelector }), lubeck),
        /spec\.federatesWithSelector: /,
      );
    });
  }
});

describe('hints', () => {
  const entry = (name: string, hint?: string) => {
    const found = usableEntry(
      { ...object({ ...good, ...(hint !== undefined && { hint }) }), metadata: { name } } as never,
      lubeck,
    );
    assert.ok('entry' in found);
    return found.entry;
  };

  test('are what operators gave, or the names of entries', () => {
    assert.deepEqual(hintsOf([entry('a', 'internal'), entry('b')]), ['internal', 'b']);
  });

  test('that are given twice go to the first entry, and before any name', () => {
    assert.deepEqual(hintsOf([entry('a', 'x'), entry('b', 'x'), entry('x')]), ['x', '', '']);
    assert.deepEqual(hintsOf([entry('a'), entry('b', 'a')]), ['', 'a']);
  });

  test('are never the same twice', () => {
    const word = fc.constantFrom('a', 'b', 'c', 'd');
    fc.assert(
      fc.property(fc.uniqueArray(word), fc.array(fc.option(word)), (names, given) => {
        const entries = names.map((name, at) => entry(name, given[at] ?? undefined));
        const hints = hintsOf(entries).filter((hint) => hint !== '');
        assert.equal(new Set(hints).size, hints.length);
      }),
    );
  });
});

describe('an entry is usable', () => {
  test('only for identities of our own trust domain that are not reserved', () => {
    assert.ok('entry' in usableEntry(object(good), lubeck));
    const reason = (spec: object) => {
      const found = usableEntry(object({ ...good, ...spec }), lubeck);
      return 'problem' in found ? found.problem.reason : undefined;
    };
    assert.equal(reason({ spiffeID: 'spiffe://bruges.example/web' }), 'ForeignTrustDomain');
    assert.equal(reason({ spiffeID: 'spiffe://lubeck.example/hansa/site' }), 'ReservedPath');
    assert.equal(reason({ spiffeID: 'spiffe://lubeck.example' }), 'ReservedPath');
    assert.equal(reason({ spiffeID: 'web' }), 'InvalidID');
    for (const type of ['unix:uid:', 'systemd:id:', 'cgroup:/', 'unix:sha256:']) {
      assert.equal(reason({ selectors: [`${type}1`, `${type}2`] }), 'NeverMatches');
    }
    const groups = ['unix:supplementary_gid:1', 'unix:supplementary_gid:2'];
    assert.equal(reason({ selectors: groups }), undefined);
  });

  test('or is refused before it is stored, with the field that is wrong', () => {
    admitEntry(object(good), lubeck);
    assert.throws(
      () => admitEntry(object({ ...good, spiffeID: 'spiffe://bruges.example/web' }), lubeck),
      /spec\.spiffeID: .*another trust domain/,
    );
  });
});

describe('matching', () => {
  test('finds exactly the entries of which every selector is true of the process', () => {
    const uid = fc.integer({ min: 0, max: 3 });
    const path = fc.constantFrom('/a', '/b');
    const groups = fc.uniqueArray(uid, { maxLength: 3 });
    const selectors = fc
      .record({ uid: fc.option(uid), gid: fc.option(uid), path: fc.option(path), groups })
      .map((some) => [
        ...(some.uid === null ? [] : [`unix:uid:${some.uid}`]),
        ...(some.gid === null ? [] : [`unix:gid:${some.gid}`]),
        ...some.groups.map((group) => `unix:supplementary_gid:${group}`),
        ...(some.path === null ? [] : [`unix:path:${some.path}`]),
      ])
      .filter((list) => list.length > 0);
    fc.assert(
      fc.property(
        fc.array(selectors, { maxLength: 20 }),
        uid,
        uid,
        fc.option(path),
        groups,
        (all, u, g, p, of) => {
          const entries = all.map(
            (wanted, at): UsableEntry => ({
              name: String(at).padStart(2, '0'),
              uid: '',
              id: SpiffeId.parse('spiffe://lubeck.example/web'),
              selectors: wanted,
              federatesWith: [],
              federatesWithSelector: undefined,
              dnsNames: [],
              hint: undefined,
              ttlSeconds: 60,
              jwtTtlSeconds: 60,
            }),
          );
          const process = [
            `unix:uid:${u}`,
            `unix:gid:${g}`,
            ...of.map((group) => `unix:supplementary_gid:${group}`),
            ...(p === null ? [] : [`unix:path:${p}`]),
          ];
          assert.deepEqual(
            new EntryIndex(entries).match(process).map(({ name }) => name),
            entries
              .filter((entry) => entry.selectors.every((wanted) => process.includes(wanted)))
              .map(({ name }) => name),
          );
        },
      ),
    );
  });
});

describe('the DNS names of an entry', () => {
  const namesWith = (siteNames: readonly string[], ...dnsNames: readonly string[]) => {
    const found = usableEntry(object({ ...good, dnsNames: [...dnsNames] }), lubeck, siteNames);
    assert.ok('entry' in found);
    return found.entry.dnsNames;
  };

  test('are those that it asks for', () => {
    assert.deepEqual(namesWith(['localhost'], 'a.example', '*.b.example'), [
      'a.example',
      '*.b.example',
    ]);
  });

  test('are without those of the site, also where a wildcard covers one', () => {
    const site = ['Portal.lubeck.example'];
    assert.deepEqual(namesWith(site, 'portal.lubeck.example', 'a.example'), ['a.example']);
    assert.deepEqual(namesWith(site, '*.lubeck.example', '*.example'), ['*.example']);
  });
});
