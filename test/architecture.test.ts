// The architecture, as tests. Each rule says why it is there; a rule that is in the way is changed
// here, in the open, and not around.

import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { suite, test } from 'node:test';
import { type Import, type Source, scan } from './source-scan.ts';

const root = join(import.meta.dirname, '..');

interface File extends Source {
  /** Below the root, with forward slashes. */
  readonly path: string;
  readonly text: string;
  readonly isTest: boolean;
}

function load(pattern: string): File[] {
  return globSync(pattern, { cwd: root })
    .toSorted()
    .map((path) => {
      const text = readFileSync(join(root, path), 'utf8');
      return { path, text, isTest: path.endsWith('.test.ts'), ...scan(text) };
    });
}

const sources = load('src/**/*.ts');
/**
 * Tests may reach further: they play the outside world. So may what only they use: files called
 * test-… and crash-…, and the suites in conformance folders.
 */
const product = sources.filter(
  (file) => !file.isTest && !/\/(?:test-|crash-|conformance)[^/]*(?:\/|\.ts$)/.test(file.path),
);

/** Where an import leads: a path below the root, or the name of a package or of a part of Node. */
function target(file: File, found: Import): string {
  if (!found.specifier.startsWith('.')) return found.specifier;
  return normalize(join(dirname(file.path), found.specifier));
}

function check(why: string, offences: readonly string[]): void {
  assert.equal(offences.length, 0, `${why}\n  ${offences.join('\n  ')}`);
}

/** Every import of the files that the rule does not allow, as `file:line imports what`. */
function badImports(
  files: readonly File[],
  allowed: (to: string, found: Import, file: File) => boolean,
): string[] {
  return files.flatMap((file) =>
    file.imports
      .filter((found) => !allowed(target(file, found), found, file))
      .map((found) => `${file.path}:${found.line} imports ${found.specifier}`),
  );
}

const under = (...folders: string[]): File[] =>
  product.filter((file) => folders.some((folder) => file.path.startsWith(folder)));
const isOurs = (to: string): boolean => to.startsWith('src/');
const planes = ['trust', 'auth', 'peering', 'kubernetes', 'overlay'];

/** What a value of `api` may be made of: computing, no contact with the world. */
const pureParts = new Set([
  'node:assert',
  'node:buffer',
  'node:crypto',
  'node:string_decoder',
  'node:util',
  'yaml',
]);

suite('dependencies point one way', () => {
  test('core imports only core and the values of api', () => {
    const values = /^src\/api\/values\//;
    check(
      'Every plane stands on core; if core knew a plane, a kind or the server, no part could be understood or tested alone. From api it takes shared values and types.',
      badImports(
        under('src/core/'),
        (to, found) =>
          !isOurs(to) ||
          to.startsWith('src/core/') ||
          values.test(to) ||
          to === 'src/api/object.ts' ||
          (found.typeOnly && to.startsWith('src/api/')),
      ),
    );
  });

  test('api imports only api and core/errors, and no I/O', () => {
    check(
      'What a kind is must be computable anywhere: in the server, the command line, the web page and generators of CRDs. So api touches no files, sockets, clocks or processes.',
      badImports(
        under('src/api/'),
        (to) => to.startsWith('src/api/') || to.startsWith('src/core/errors/') || pureParts.has(to),
      ),
    );
  });

  test('no plane imports another plane, the server or the command line', () => {
    check(
      'Planes meet only in the store: one writes a resource that the other watches. A call between planes would make one fail with the other.',
      planes.flatMap((plane) =>
        badImports(
          under(`src/${plane}/`),
          (to) =>
            !isOurs(to) ||
            to.startsWith(`src/${plane}/`) ||
            to.startsWith('src/api/') ||
            to.startsWith('src/core/'),
        ),
      ),
    );
  });

  test('only main.ts imports a plane', () => {
    check(
      'A plane is a folder and one line in main.ts. The core, the server and the command line get what a plane adds from its value (core/plane/plane.ts).',
      badImports(
        product.filter(
          ({ path }) =>
            path !== 'src/main.ts' && !planes.some((plane) => path.startsWith(`src/${plane}/`)),
        ),
        (to) => !planes.some((plane) => to.startsWith(`src/${plane}/`)),
      ),
    );
  });

  test('commands start without the code of the daemon', () => {
    const byPath = new Map(product.map((file) => [file.path, file]));
    const reached = new Set(['src/main.ts']);
    for (const path of reached) {
      const file = byPath.get(path);
      for (const found of file?.imports ?? []) {
        if (file !== undefined && !found.typeOnly && found.lazy !== true)
          reached.add(target(file, found));
      }
    }
    assert.ok(reached.has('src/cli/program.ts'));
    check(
      'Every command imports main.ts and with it plane.ts of every plane. What a running site needs is loaded by `await import()`, or each command takes as long to start as a site.',
      [...reached].filter((path) => /^src\/(?:\w+\/start|server\/(?:site|run))\.ts$/.test(path)),
    );
  });

  test('the server does not import the command line', () => {
    check(
      'The daemon must not change with how a command prints; the command line imports the server, to start it.',
      badImports(under('src/server/'), (to) => !to.startsWith('src/cli/') && to !== 'src/main.ts'),
    );
  });

  test('nothing imports main.ts', () => {
    check(
      'main.ts wires everything, so whoever imports it imports everything.',
      badImports(product, (to) => to !== 'src/main.ts'),
    );
  });

  test('nothing in src imports tests, benchmarks or scripts', () => {
    check(
      'Tests, benchmarks and scripts are not shipped.',
      badImports(product, (to) => isOurs(to) || !/^(?:\.\.|test|bench|scripts|examples)/.test(to)),
    );
  });
});

suite('contact with the world is made in named places', () => {
  test('processes are started only under apply/ and in server/supervisor.ts', () => {
    check(
      'A command that is run somewhere deep is a command that nobody plans, journals or rolls back.',
      badImports(
        product.filter(
          (file) => !/\/apply\//.test(file.path) && file.path !== 'src/server/supervisor.ts',
        ),
        (to) => !/^(?:node:)?(?:child_process|cluster)$/.test(to),
      ),
    );
  });

  test('database drivers are imported only in core/store', () => {
    check(
      'Everything else uses the contract of store.ts, which is why another database is one more driver.',
      badImports(
        product.filter((file) => !file.path.startsWith('src/core/store/')),
        (to) => !/^(?:node:sqlite|better-sqlite3|pg|postgres)$/.test(to),
      ),
    );
  });

  test('stored values are parsed only in core/store/reader.ts', () => {
    // As `JSON.parse(entry.value.toString('utf8'))`, or with another parser of ours.
    const parsing = /\b(?:JSON\.parse|parse\w*Json)\([^;]*?(?:\bentry\b|\bvalue\.toString\()/g;
    check(
      'A reader parses each version of a record once for all who read it, and says the same where one is damaged: use kindReader or recordReader.',
      product
        .filter((file) => file.path !== 'src/core/store/reader.ts')
        .flatMap((file) =>
          [...file.code.matchAll(parsing)].map(
            (found) => `${file.path}:${lineAt(file.code, found.index)} has ${found[0]}`,
          ),
        ),
    );
  });

  test('one authorizer answers for the whole site', () => {
    const made = product.filter((file) => /\bnew Authorizer\(/.test(file.code));
    assert.deepEqual(
      made.map((file) => file.path),
      ['src/server/site.ts'],
      'An authorizer compiles the policy and the rights of each caller. The API, routes, watches and reviews share one, so that all of them follow a change at the same moment.',
    );
  });

  test('names are looked up only in core/identity/tls/look-up-name.ts', () => {
    check(
      'node:dns.lookup waits for threads that a dead name server holds: dial (core/identity/tls/dial.ts) instead.',
      badImports(
        product.filter((file) => file.path !== 'src/core/identity/tls/look-up-name.ts'),
        (to) => !/^node:dns(?:\/promises)?$/.test(to),
      ),
    );
  });

  const chance =
    /\b(?:Date\.now|Math\.random|performance\.now|process\.hrtime|randomBytes|randomUUID|randomInt|randomFillSync|getRandomValues|(?<!\.)setTimeout|(?<!\.)setInterval|performance\.timeOrigin)\b|\bnew Date\(\s*\)/g;

  test('time and chance come only from core/clock', () => {
    check(
      'Whatever reads the real clock, sets a real timer or draws real randomness cannot be replayed by the simulation: take a Clock or a Random instead. (setImmediate is free: it lets others run and measures no time.)',
      product
        .filter((file) => !file.path.startsWith('src/core/clock/'))
        .flatMap((file) => [
          ...[...file.code.matchAll(chance)].map(
            (found) => `${file.path}:${lineAt(file.code, found.index)} uses ${found[0]}`,
          ),
          ...badImports([file], (to) => !/^(?:node:)?timers(?:\/promises)?$/.test(to)),
        ]),
    );
  });

  test('the real clock and real randomness are handed out by the outermost layers', () => {
    check(
      'A part that imports the system clock itself cannot be given a virtual one.',
      badImports(
        product.filter(
          (file) => !/^src\/(?:main\.ts|cli\/|server\/|core\/clock\/)/.test(file.path),
        ),
        (to, _found, file) =>
          to !== 'src/core/clock/system.ts' || /\bworker\b/.test(file.path.replaceAll('-', ' ')),
      ),
    );
  });

  test('compile files do no I/O', () => {
    check(
      'compileX(state) is total and deterministic so that its plans can be hashed, approved and tested by example.',
      badImports(
        product.filter((file) => /\/compile[^/]*\.ts$/.test(file.path)),
        (to) => isOurs(to) || pureParts.has(to),
      ),
    );
  });
});

suite('files are easy to find and to read', () => {
  test('a file of more than 500 lines says at its top why it is one piece', () => {
    check(
      'Small files are read; large ones are searched. Split it, or open it with a comment that has the words "one piece".',
      [...sources, ...load('test/**/*.ts'), ...load('bench/**/*.ts')]
        .filter((file) => file.text.split('\n').length > 501)
        .filter((file) => !/one piece/.test(/^(?:\/\/.*\n)+/.exec(file.text)?.[0] ?? ''))
        .map((file) => `${file.path} has ${file.text.split('\n').length - 1} lines`),
    );
  });

  test('a table that is looked up by any text is a Map', () => {
    assert.deepEqual(
      product
        .filter((file) => /^(?:export )?const \w+: [\w<]*Record<string,/m.test(file.code))
        .map((file) => file.path),
      [],
      'a plain object also has constructor, toString and __proto__, which others may send; use a Map',
    );
  });

  test('no file re-exports everything of another', () => {
    check(
      'With `export *` nobody can say where a name comes from, and a new name in one file breaks another.',
      product
        .filter((file) => /\bexport\s*\*/.test(file.code))
        .map((file) => `${file.path} has export *`),
    );
  });

  test('names of files are kebab-case and say what is inside', () => {
    const vague = /(?:^|-)(?:utils?|helpers?|managers?|common|misc|shared|index)(?:-|$)/;
    check(
      'A file called utils is where things go that nobody can find again: name it for its main export.',
      [...sources, ...load('test/**/*.ts'), ...load('bench/**/*.ts')].flatMap((file) => {
        const name =
          file.path
            .split('/')
            .at(-1)
            ?.replace(/(?:\.test)?\.ts$/, '') ?? '';
        if (vague.test(name)) return [`${file.path} has a vague name`];
        return /^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name) ? [] : [`${file.path} is not kebab-case`];
      }),
    );
  });

  test('every folder opens with a comment that says what lives there', () => {
    const folders = new Map<string, boolean>();
    for (const file of product) {
      const folder = dirname(file.path);
      folders.set(folder, (folders.get(folder) ?? false) || /^\/\/ \S/.test(file.text));
    }
    check(
      'A reader who opens a folder should learn in one paragraph what it is for and what may not be in it.',
      [...folders]
        .filter(([, opens]) => !opens)
        .map(([folder]) => `${folder} has no file with an opening comment`),
    );
  });

  test('nothing is left to do later without saying when', () => {
    check(
      "A note to self becomes a stranger's riddle. Do it, or write down the condition under which it must be done.",
      [...sources, ...load('test/**/*.ts')]
        .filter((file) => /\b(?:T[O]DO|F[I]XME|X[X]X)\b/.test(file.text))
        .map((file) => file.path),
    );
  });

  test('no test holds a stopwatch', () => {
    check(
      'A machine that is busy is not a bug. What must be fast is measured in bench/.',
      [...sources, ...load('test/**/*.ts')]
        .filter((file) => /assert[^;]*(?:performance\.now|Date\.now)\(\) - \w+ </.test(file.text))
        .map((file) => file.path),
    );
  });

  test('imports name files with their extension', () => {
    check(
      'Node runs these files as they are, and adds nothing to a specifier.',
      badImports(
        sources,
        (_to, found, file) =>
          !found.specifier.startsWith('.') ||
          existsSync(join(root, dirname(file.path), found.specifier)),
      ),
    );
  });
});

function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length;
}
