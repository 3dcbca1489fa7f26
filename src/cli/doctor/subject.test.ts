import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Command } from 'commander';
import { systemClock } from '../../core/clock/system.ts';
import type { Io } from '../../core/plane/command-kit.ts';
import { type DoctorSubject, ok, type SubjectCheck } from '../../core/plane/doctor.ts';
import type { Plane } from '../../core/plane/plane.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { chosenSubject, examineSubject, subjectsOf } from './subject.ts';
import { run } from '../test-io.ts';

const subjectOf = (flag: string): DoctorSubject => ({
  flag,
  placeholder: 'name',
  description: `look at this ${flag} instead`,
  help: `With --${flag} it looks at one ${flag}.`,
  example: `--${flag} north`,
  listedBy: `${flag} list`,
  parse: (text) => {
    assert.match(text, /^[a-z]+$/, `${text} cannot be a ${flag}`);
    return text;
  },
});
const cluster = subjectOf('cluster');

const checkOf = (name: string, more: Partial<SubjectCheck> = {}): SubjectCheck => ({
  subject: cluster,
  name,
  what: `${name} object`,
  listedBy: `hansa ${name} list`,
  run: async (_visit, asked) => (asked === 'north' ? [ok(name, `${asked} is well`)] : undefined),
  ...more,
});
const planeOf = (name: string, ...subjects: readonly SubjectCheck[]): Plane => ({
  name,
  kinds: [],
  doctor: { subjects },
  start: async () => assert.fail('no site is started'),
});

const examine = (planes: readonly Plane[], name: string) =>
  examineSubject({ planes, io: { clock: systemClock } as Io }, {} as SiteClient, {
    subject: cluster,
    name,
  });

suite('a subject of hansa doctor', () => {
  test('is examined by every plane that adds a check to it, in the order of the checks', async () => {
    const planes = [
      planeOf('auth', checkOf('login', { follows: 'api' })),
      planeOf('kube', checkOf('api')),
    ];
    const found = await examine(planes, 'north');
    assert.deepEqual(
      found.map(({ check }) => check),
      ['api', 'login'],
    );
  });

  test('is examined where only one plane knows it', async () => {
    const none = checkOf('login', { run: async () => undefined });
    const found = await examine([planeOf('auth', none), planeOf('kube', checkOf('api'))], 'north');
    assert.deepEqual(
      found.map(({ check }) => check),
      ['api'],
    );
  });

  test('that no plane knows is refused, with where to look', async () => {
    const planes = [planeOf('auth', checkOf('login')), planeOf('kube', checkOf('api'))];
    await assert.rejects(examine(planes, 'south'), {
      code: 'HANSA_NOT_FOUND',
      message:
        'This site has no login object and no api object south. To list them: hansa login list, hansa api list.',
    });
  });

  test('is not examined by checks of other subjects', async () => {
    const other = checkOf('vm', { subject: subjectOf('vm') });
    const found = await examine([planeOf('kube', checkOf('api'), other)], 'north');
    assert.deepEqual(
      found.map(({ check }) => check),
      ['api'],
    );
  });

  test('cannot send control characters to the terminal', async () => {
    const hostile = checkOf('api', { run: async () => [ok('api', 'a\u001b[2Jb')] });
    const [found] = await examine([planeOf('kube', hostile)], 'north');
    assert.equal(found?.text, 'a\ufffd[2Jb');
  });
});

suite('the flags of the subjects', () => {
  const planes = [
    planeOf('auth', checkOf('login')),
    planeOf('kube', checkOf('api'), checkOf('vm', { subject: subjectOf('vm') })),
  ];
  const chosen = (...args: readonly string[]) => {
    const subjects = subjectsOf(planes);
    const command = new Command();
    for (const { flag } of subjects) command.option(`--${flag} <name>`);
    return chosenSubject(subjects, command.parse(args, { from: 'user' }));
  };

  test('are one for each subject, and in the help of hansa doctor', async () => {
    const { code, stdout } = await run(['doctor', '--help'], { planes });
    assert.equal(code, 0);
    assert.equal(stdout.match(/^ {2}--cluster <name>/gm)?.length, 1);
    assert.match(stdout, /--vm <name> +look at this vm instead/);
    assert.match(stdout, /With --cluster it looks at one cluster\./);
    assert.match(stdout, /hansa doctor --data-dir \.\/lubeck --cluster north/);
  });

  test('name one subject, or none', () => {
    assert.equal(chosen(), undefined);
    assert.deepEqual(chosen('--cluster', 'north'), { subject: cluster, name: 'north' });
  });

  test('are refused where the value cannot name the subject', () => {
    assert.throws(() => chosen('--cluster', 'No Name'), /cannot be a cluster/);
  });

  test('are refused together', () => {
    assert.throws(() => chosen('--cluster', 'north', '--vm', 'crane'), {
      code: 'HANSA_USAGE',
      message: 'Give either --cluster or --vm, not both.',
    });
  });
});
