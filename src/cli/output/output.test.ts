import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { parse } from 'yaml';
import { HansaError } from '../../core/errors/error.ts';
import { statusOf } from '../../server/http/status.ts';
import { lines, warningsOf } from '../site/client.ts';
import { describeObject, words } from './describe-text.ts';
import { parseDurationFlag } from '../../core/command/duration-flag.ts';
import { compileTemplate } from './jsonpath.ts';
import { parseFormat, renderCustomColumns, renderValue } from './output.ts';
import { progressLine } from './progress.ts';
import { localUrl } from '../site/site-endpoints.ts';
import { compareBy } from './sort-by.ts';
import { allPlanes } from '../../test-planes.ts';
import { catalogOf } from '../../core/errors/plane-errors.ts';
import { errorFromStatus as errorFrom } from '../site/status-error.ts';

const errors = catalogOf(allPlanes);
const errorFromStatus = (status: number, body: unknown): HansaError =>
  errorFrom(status, body, errors);

import { isMet, parseGoal } from '../commands/wait-goal.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';

const object = {
  apiVersion: 'hansa.dev/v1alpha1',
  kind: 'Role',
  metadata: {
    name: 'viewer',
    uid: 'u',
    resourceVersion: '7',
    generation: 2,
    creationTimestamp: '2026-01-01T00:00:00Z',
    labels: { team: 'ops' },
  },
  spec: { rules: [{ kinds: ['Site', 'Role'], verbs: ['get'] }] },
  status: {
    conditions: [
      {
        type: 'Ready',
        status: 'True' as const,
        reason: 'Fine',
        message: 'All is well.',
        lastTransitionTime: '2026-01-01T00:00:00Z',
        observedGeneration: 2,
      },
    ],
  },
};

suite('jsonpath', () => {
  const cases: [template: string, expected: string][] = [
    ['{.metadata.name}', 'viewer'],
    ['.metadata.name', 'viewer'],
    ['{$.metadata.name}', 'viewer'],
    ['{.spec.rules[0].kinds[*]}', 'Site Role'],
    ['{.spec.rules[0].kinds[-1]}', 'Role'],
    ['{.spec.rules[0].kinds[0:1]}', 'Site'],
    ["{.metadata['name']}", 'viewer'],
    ['{.metadata.labels}', '{"team":"ops"}'],
    ['{.status.conditions[?(@.type=="Ready")].status}', 'True'],
    ['{.status.conditions[?(@.type!="Ready")].status}', ''],
    ['{.status.conditions[?(@.observedGeneration>=2)].reason}', 'Fine'],
    ['{range .spec.rules[*]}{.verbs[0]}{"\\t"}{end}', 'get\t'],
    ['name={.metadata.name}, missing={.no.such}', 'name=viewer, missing='],
    ['{.metadata.generation}', '2'],
    ['{"{literal}"}', '{literal}'],
  ];
  for (const [template, expected] of cases) {
    test(`${template} gives ${JSON.stringify(expected)}`, () => {
      assert.equal(compileTemplate(template)(object), expected);
    });
  }

  for (const template of ['{.a', '{end}', '{range .a}', '{.a[}', '{.a[?(b)]}', '{.a[?(@.b==c)]}']) {
    test(`${template} is refused as a usage error`, () => {
      assert.throws(() => compileTemplate(template), { code: 'HANSA_USAGE' });
    });
  }

  test('never fails in another way, whatever the template', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 40 }), (template) => {
        try {
          compileTemplate(template)(object);
        } catch (error) {
          assert.ok(error instanceof HansaError, String(error));
        }
      }),
    );
  });
});

suite('values', () => {
  test('as yaml keep texts that older readers would take for something else', () => {
    const value = { time: '2026-01-01T00:00:00Z', on: 'no', number: '0o7', list: [] };
    const text = renderValue(value, { format: 'yaml' }) ?? '';
    assert.match(text, /"2026-01-01T00:00:00Z"/);
    assert.deepEqual(parse(text, { version: '1.1' }), value);
  });

  test('as json are parsed again unchanged', () => {
    assert.deepEqual(JSON.parse(renderValue(object, { format: 'json' }) ?? ''), object);
  });
});

suite('columns', () => {
  test('line up under their headings with three spaces between them', () => {
    const rows = [
      ['NAME', 'AGE'],
      ['lübeck', '3d'],
      ['x', ''],
    ];
    assert.equal(renderColumns(rows), 'NAME     AGE\nlübeck   3d\nx');
  });

  test('hold no character that could drive a terminal', () => {
    assert.equal(printable('a\u001b[31mb\u009b2Jc\u202ed\ne\tf'), 'a�[31mb�2Jc�d e f');
    assert.equal(printable('a\n\u0007', false), 'a\n�');
  });
});

suite('describe', () => {
  test('shows names as words, and conditions as a table', () => {
    const text = describeObject(object);
    assert.match(text, /^Name: +viewer$/m);
    assert.match(text, /^Labels: +team=ops$/m);
    assert.match(
      text,
      /^ {2}Rules:\n {4}- Kinds:\n {8}- Site\n {8}- Role\n {6}Verbs:\n {8}- get$/m,
    );
    assert.match(text, /^ {2}Ready +True +Fine +2026-01-01T00:00:00Z +All is well\.$/m);
  });

  test('shortens what nobody reads, and lets no line of a text pass for a field', () => {
    const spec = { bundle: 'x'.repeat(1000), note: 'one\nConditions:\n' };
    const text = describeObject({ ...object, spec });
    assert.match(text, /^ {2}Bundle: x{64}… \(1000 characters; hansa get -o yaml shows all\)$/m);
    assert.match(text, /^ {2}Note: one\n {6}Conditions:\n\S/m);
  });

  test('spells out fields and leaves the user’s own keys alone', () => {
    assert.equal(words('bundleEndpointURL'), 'Bundle Endpoint URL');
    assert.equal(words('hansa.dev/team'), 'hansa.dev/team');
  });
});

suite('waiting', () => {
  test('for a condition looks at type and status, whatever their case', () => {
    assert.ok(isMet(parseGoal('condition=ready'), object));
    assert.ok(isMet(parseGoal('condition=Ready=true'), object));
    assert.ok(!isMet(parseGoal('condition=Ready=False'), object));
    assert.ok(!isMet(parseGoal('condition=Synced'), object));
  });

  test('for a condition does not take one of an older generation', () => {
    const changed = { ...object, metadata: { ...object.metadata, generation: 3 } };
    assert.ok(!isMet(parseGoal('condition=Ready'), changed));
  });

  test('for a jsonpath compares with the value, or asks for any', () => {
    assert.ok(isMet(parseGoal('jsonpath={.metadata.name}=viewer'), object));
    assert.ok(isMet(parseGoal('jsonpath=.metadata.name=viewer'), object));
    assert.ok(isMet(parseGoal('jsonpath={.metadata.name}'), object));
    assert.ok(!isMet(parseGoal('jsonpath={.metadata.nothing}'), object));
    assert.ok(
      isMet(parseGoal('jsonpath={.status.conditions[?(@.type=="Ready")].status}=True'), object),
    );
  });

  test('for creation and deletion asks whether it is there', () => {
    assert.ok(isMet(parseGoal('delete'), undefined));
    assert.ok(!isMet(parseGoal('delete'), object));
    assert.ok(isMet(parseGoal('create'), object));
    assert.ok(!isMet(parseGoal('condition=Ready'), undefined));
  });
});

suite('-o', () => {
  test('takes =name behind the short flag, as kubectl does', () => {
    assert.deepEqual(parseFormat('=name', ['name']), { format: 'name' });
    assert.equal(parseFormat('=jsonpath={.metadata.name}', ['jsonpath']).format, 'jsonpath');
  });

  test('refuses two equals signs', () => {
    assert.throws(() => parseFormat('==name', ['name']), /expected name/);
  });

  const columnsOf = (text: string) => {
    const output = parseFormat(`custom-columns=${text}`, ['custom-columns']);
    assert.equal(output.format, 'custom-columns');
    return output.columns;
  };

  test('custom-columns prints a column for each path, and <none> where there is nothing', () => {
    const columns = columnsOf('NAME:.metadata.name,KINDS:.spec.rules[0].kinds[*],NO:.no.such');
    assert.equal(
      renderCustomColumns(columns, [object], true),
      'NAME     KINDS       NO\nviewer   Site Role   <none>',
    );
  });

  test('custom-columns leaves commas within brackets to the path', () => {
    const columns = columnsOf('READY:.status.conditions[?(@.type=="Ready")].status');
    assert.equal(renderCustomColumns(columns, [object], false), 'True');
  });

  test('custom-columns shows no control characters', () => {
    const named = { metadata: { name: 'a\u001b[31m\nb' } };
    assert.equal(renderCustomColumns(columnsOf('N:.metadata.name'), [named], false), 'a�[31m b');
  });

  for (const text of ['', 'NAME', 'NAME:', ':.metadata.name', 'A:.a,,B:.b', 'A:{.a']) {
    test(`custom-columns=${text} is refused`, () => {
      assert.throws(() => columnsOf(text), { code: 'HANSA_USAGE' });
    });
  }
});

suite('--sort-by', () => {
  const sorted = (path: string, values: unknown[]): unknown[] => values.toSorted(compareBy(path));

  test('sorts text with the numbers in it by size', () => {
    const [one, two, ten] = ['crane-1', 'crane-2', 'crane-10'].map((name) => ({ name }));
    assert.deepEqual(sorted('.name', [ten, two, one]), [one, two, ten]);
    assert.deepEqual(sorted('{.name}', [ten, two, one]), [one, two, ten]);
  });

  test('sorts numbers by size, and what lacks the field first', () => {
    const [none, two, ten] = [{}, { n: 2 }, { n: 10 }];
    assert.deepEqual(sorted('.n', [ten, none, two]), [none, two, ten]);
  });

  for (const path of ['', '{}', '.', '.a[']) {
    test(`${JSON.stringify(path)} is refused`, () => {
      assert.throws(() => compareBy(path), { code: 'HANSA_USAGE' });
    });
  }
});

suite('durations', () => {
  test('are read as Go writes them', () => {
    assert.equal(parseDurationFlag('1h30m'), 5_400_000);
    assert.equal(parseDurationFlag('500ms'), 500);
    assert.equal(parseDurationFlag('1.5s'), 1500);
    assert.equal(parseDurationFlag('30'), 30_000);
  });

  test('may count days', () => {
    assert.equal(parseDurationFlag('7d'), 604_800_000);
    assert.equal(parseDurationFlag('1d12h'), 129_600_000);
  });

  for (const text of ['', '-1s', '5 m', '5w', 'd', 's', '1h-', '1D']) {
    test(`${JSON.stringify(text)} is refused`, () => {
      assert.throws(() => parseDurationFlag(text), /30s, 5m, 1h30m or 7d/);
    });
  }
});

suite('answers of a site', () => {
  test('become our errors again, with their causes', () => {
    const error = errorFromStatus(422, {
      kind: 'Status',
      reason: 'Invalid',
      message: 'Role "x" is invalid',
      details: {
        name: 'x',
        causes: [{ reason: 'FieldValueRequired', message: 'Required', field: 'spec' }],
      },
    });
    assert.equal(error.code, 'HANSA_INVALID');
    assert.equal(error.details?.causes?.[0]?.field, 'spec');
  });

  test('that blame a file which the site reads are no fault of the site', () => {
    const sent = statusOf(new HansaError('HANSA_CONFIG_INVALID', 'Cannot read issuing.key.'));
    assert.equal(errorFromStatus(500, sent).code, 'HANSA_CONFIG_INVALID');
  });

  test('that are no Status are judged by their HTTP status', () => {
    assert.equal(errorFromStatus(503, undefined).code, 'HANSA_UNAVAILABLE');
    assert.equal(errorFromStatus(418, 'teapot').code, 'HANSA_INTERNAL');
    assert.match(errorFromStatus(502, { kind: 'Status', message: 5 }).message, /HTTP status 502/);
  });

  test('never break the reader, whatever they hold', () => {
    fc.assert(
      fc.property(fc.integer({ min: 100, max: 599 }), fc.jsonValue(), (status, body) => {
        assert.ok(errorFromStatus(status, body) instanceof HansaError);
      }),
    );
  });

  test('may carry warnings, several in one header', () => {
    assert.deepEqual(warningsOf('299 - "unknown field \\"a\\"", 299 - "b, c"'), [
      'unknown field "a"',
      'b, c',
    ]);
    assert.deepEqual(warningsOf(undefined), []);
  });

  test('stream as lines, however they are cut', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.string({ minLength: 1, maxLength: 20 }).filter((s) => !/[\n\r]/.test(s))),
        fc.integer({ min: 1, max: 7 }),
        async (texts, size) => {
          const bytes = Buffer.from(texts.map((text) => `${text}\n`).join(''));
          const chunks: Buffer[] = [];
          for (let i = 0; i < bytes.length; i += size) chunks.push(bytes.subarray(i, i + size));
          const read: string[] = [];
          for await (const line of lines(toAsync(chunks))) read.push(line.toString('utf8'));
          assert.deepEqual(read, texts);
        },
      ),
    );
  });
});

async function* toAsync(chunks: readonly Buffer[]): AsyncGenerator<Buffer, void> {
  yield* chunks;
}

suite('small things', () => {
  test('a wildcard address is reached over loopback', () => {
    assert.equal(localUrl('https://0.0.0.0:7443'), 'https://127.0.0.1:7443');
    assert.equal(localUrl('https://[::]:7443'), 'https://[::1]:7443');
    assert.equal(localUrl('https://192.0.2.1:7443'), 'https://192.0.2.1:7443');
  });

  test('a progress bar shows share and counts', () => {
    assert.equal(
      progressLine('verifying', 500_000, 1_000_000),
      `verifying ${'█'.repeat(15)}${'░'.repeat(15)} 50 %  500,000 of 1,000,000`,
    );
  });
});
