// The architecture rules, as tests. Each rule states its reason. To break a rule, change it here first.
// They are about meaning, never about the size of files or folders.

import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
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

/**
 * None of the files may offend, except those that match an exception. A rule that looks at no file
 * fails, and so does an exception that no file needs: both have lost their subject.
 */
function check<T extends { readonly path: string }>(
  why: string,
  files: readonly T[],
  offencesOf: (file: T) => readonly string[],
  ...exceptions: readonly RegExp[]
): void {
  assert.notEqual(files.length, 0, `This rule looks at no file: ${why}`);
  for (const exception of exceptions) {
    const excepted = files.filter(({ path }) => exception.test(path));
    const isNeeded = excepted.some((file) => offencesOf(file).length > 0);
    assert.ok(isNeeded, `No file needs the exception ${exception.source}: ${why}`);
  }
  const offences = files
    .filter(({ path }) => !exceptions.some((exception) => exception.test(path)))
    .flatMap((file) => offencesOf(file));
  assert.equal(offences.length, 0, `${why}\n  ${offences.join('\n  ')}`);
}

/** Every import of a file that the rule does not allow, as `file:line imports what`. */
function imports(
  allowed: (to: string, found: Import, file: File) => boolean,
): (file: File) => readonly string[] {
  return (file) =>
    file.imports
      .filter((found) => !allowed(target(file, found), found, file))
      .map((found) => `${file.path}:${found.line} imports ${found.specifier}`);
}

/** Every place in the code of a file that matches. */
function code(pattern: RegExp): (file: File) => readonly string[] {
  return (file) =>
    [...file.code.matchAll(pattern)].map(
      (found) => `${file.path}:${lineAt(file.code, found.index)} has ${found[0]}`,
    );
}

/** The file itself, where the condition is true of it. */
function isTrue(
  condition: (file: File) => boolean,
  says: string,
): (file: File) => readonly string[] {
  return (file) => (condition(file) ? [`${file.path} ${says}`] : []);
}

function under(...folders: readonly string[]): readonly File[] {
  return folders.flatMap((folder) => {
    const files = product.filter((file) => file.path.startsWith(folder));
    assert.notEqual(files.length, 0, `${folder} has no files`);
    return files;
  });
}

const isOurs = (to: string): boolean => to.startsWith('src/');
const planes = globSync('src/*/plane.ts', { cwd: root }).map((path) => dirname(path));
const isPlane = (to: string): boolean => planes.some((plane) => to.startsWith(`${plane}/`));
const everything = [...sources, ...load('test/**/*.ts'), ...load('bench/**/*.ts')];

suite('a rule', () => {
  const offends = (): readonly string[] => ['it offends'];
  const isFine = (): readonly string[] => [];
  const files = [{ path: 'src/a.ts' }];

  test('fails for a file that offends, and passes for one that does not', () => {
    assert.throws(() => check('why', files, offends), /why\n {2}it offends/);
    check('why', files, isFine);
  });

  test('fails where it looks at no file', () => {
    assert.throws(() => check('why', [], isFine), /looks at no file/);
    assert.throws(() => under('src/nowhere/'), /src\/nowhere\/ has no files/);
  });

  test('accepts a file by an exception, which fails where no file needs it', () => {
    check('why', files, offends, /^src\/a\.ts$/);
    assert.throws(() => check('why', files, isFine, /^src\/a\.ts$/), /No file needs the exception/);
    assert.throws(
      () => check('why', files, offends, /^src\/b\.ts$/),
      /No file needs the exception/,
    );
  });
});

suite('dependencies point one way', () => {
  test('core imports only core and the values of api', () => {
    check(
      'Every plane is built on core. If core knew a plane, a kind or the server, no part could be understood or tested by itself. From api it takes shared values and types.',
      under('src/core/'),
      imports(
        (to, found) =>
          !isOurs(to) ||
          to.startsWith('src/core/') ||
          to.startsWith('src/api/values/') ||
          to === 'src/api/object.ts' ||
          (found.typeOnly && to.startsWith('src/api/')),
      ),
    );
  });

  test('api imports only api and core/errors, and no I/O', () => {
    check(
      'A kind must be computable anywhere: in the server, the CLI, the dashboard and generators of CRDs. So api uses no files, sockets, clocks or processes.',
      under('src/api/'),
      imports(
        (to) =>
          to.startsWith('src/api/') || to.startsWith('src/core/errors/') || to === 'node:crypto',
      ),
    );
  });

  test('no plane imports another plane, the server or the command line', () => {
    check(
      'Planes meet only in the store: one writes a resource that the other watches. A call between planes would make one fail with the other.',
      planes.flatMap((plane) => under(`${plane}/`)),
      imports(
        (to, _found, { path }) =>
          !isOurs(to) ||
          to.startsWith(`${path.split('/').slice(0, 2).join('/')}/`) ||
          to.startsWith('src/api/') ||
          to.startsWith('src/core/'),
      ),
    );
  });

  test('only main.ts imports a plane', () => {
    check(
      'A plane is a folder and one line in main.ts. The core, the server and the command line get what a plane adds from its value (core/plane/plane.ts).',
      product.filter(({ path }) => !isPlane(path)),
      imports((to) => !isPlane(to)),
      /^src\/main\.ts$/,
    );
  });

  test('the server does not import the command line', () => {
    check(
      'The daemon must not change with how a command prints. The CLI imports the server, to start it.',
      under('src/server/'),
      imports((to) => !to.startsWith('src/cli/')),
    );
  });

  test('commands start without the code of the daemon', () => {
    const reached = new Set(['src/main.ts']);
    for (const path of reached) {
      const file = product.find((each) => each.path === path);
      for (const found of file?.imports ?? []) {
        if (file !== undefined && !found.typeOnly && found.lazy !== true)
          reached.add(target(file, found));
      }
    }
    assert.ok(reached.has('src/cli/program.ts'));
    check(
      'Every command imports main.ts and with it plane.ts of every plane. What a running site needs is loaded by `await import()`, or each command takes as long to start as a site.',
      product.filter(({ path }) => /^src\/(?:\w+\/start|server\/(?:site|run))\.ts$/.test(path)),
      isTrue(({ path }) => reached.has(path), 'is loaded by every command'),
    );
  });

  test('nothing imports main.ts', () => {
    check(
      'main.ts connects everything, so a file that imports it imports everything.',
      product,
      imports((to) => to !== 'src/main.ts'),
    );
  });

  test('nothing in src imports tests, benchmarks or scripts', () => {
    check(
      'Tests, benchmarks and scripts are not shipped.',
      product,
      imports((to) => isOurs(to) || !/^(?:\.\.|test|bench|scripts|examples)/.test(to)),
    );
  });
});

suite('contact with the world is made in named places', () => {
  test('processes are started only under apply/', () => {
    check(
      'A command that is run deep in the code is not planned, journaled or rolled back.',
      product,
      imports((to) => !/^(?:node:)?(?:child_process|cluster)$/.test(to)),
      /^src\/(?:\w+\/)+apply\//,
    );
  });

  test('kubeconfig files are loaded only by commands', () => {
    check(
      'A kubeconfig can name a program to run. The daemon takes its credentials from files of credentialsDir, from the store, or from its pod.',
      product,
      imports(
        (to, _found, { path }) =>
          to !== 'src/core/kube/load-kubeconfig.ts' || /\/commands\//.test(path),
      ),
    );
    check(
      'Only a kubeconfig names exec plugins.',
      product,
      imports((to) => to !== 'src/core/kube/apply/exec-credential.ts'),
      /^src\/core\/kube\/load-kubeconfig\.ts$/,
    );
  });

  test('files of a data folder are opened only by core/plane/data-files.ts', () => {
    const opening =
      /\b(?:open|openSync|readFile|readFileSync|writeFile|writeFileSync|appendFile|appendFileSync|copyFile|copyFileSync|cp|cpSync|createReadStream|createWriteStream)\b/;
    check(
      'The daemon obeys the files of its data folder, such as config.yaml. data-files.ts refuses those that another user owns, linked or can change. Name a file here that opens others, with whose files they are.',
      product,
      ({ path, text }) =>
        [...text.matchAll(/^import \{([^}]*)\} from 'node:fs(?:\/promises)?';/gm)]
          .map(([, names = '']) => opening.exec(names)?.[0])
          .filter((name) => name !== undefined)
          .map((name) => `${path} imports ${name}`),
      /^src\/core\/plane\/data-files\.ts$/,
      // Files that a user or an operator names, and those of a user in the home folder.
      /^src\/\w+\/commands\//,
      /^src\/cli\/(?:input\/manifests|site\/(?:contexts|credential-cache|connection|user-certificate))\.ts$/,
      /^src\/trust\/(?:controllers\/acme-controller|web\/serving-certificate|client\/join-server)\.ts$/,
      /^src\/core\/(?:identity\/authority\/upstream|kube\/load-kubeconfig|kube\/credentials\/credential-files)\.ts$/,
      /^src\/core\/(?:command\/new-file|store\/sealing\/key-file)\.ts$/,
      // Files of the system.
      /^src\/trust\/(?:apply\/|agent\/(?:agent-status|attestation-rights)\.ts$)/,
      /^src\/core\/(?:identity\/tls\/look-up-name|metrics\/process-metrics|memory\/release-program-pages)\.ts$/,
      /^src\/(?:kubernetes\/spire-sidecar\/in-cluster|cli\/process-io)\.ts$/,
      // A new file of its own, to measure the disk.
      /^src\/cli\/doctor\/checks\.ts$/,
    );
    check(
      'SQLite opens files by their path: check them first.',
      product.filter(({ code: text }) => /\bnew DatabaseSync\(/.test(text)),
      isTrue(
        ({ imports: found }) => !found.some(({ specifier }) => specifier.endsWith('data-files.ts')),
        'opens a database without data-files.ts',
      ),
    );
  });

  test('database drivers are imported only in the driver folders of core/store', () => {
    check(
      'Everything else uses the contract of store.ts, so another database is one more driver.',
      product,
      imports((to) => !/^(?:node:sqlite|better-sqlite3|pg|postgres)$/.test(to)),
      /^src\/core\/store\/sqlite\//,
    );
  });

  test('stored values are parsed only in core/store/reader.ts', () => {
    check(
      'A reader parses each version of a record once for all who read it, and reports a damaged one in the same way: use kindReader or recordReader.',
      product,
      // As `JSON.parse(entry.value.toString('utf8'))`, or with another parser of ours.
      code(/\b(?:JSON\.parse|parse\w*Json)\([^;]*?(?:\bentry\b|\bvalue\.toString\()/g),
    );
  });

  test('every write carries the epoch of the lease that it is made under', () => {
    check(
      'A replica that lost a lease without noticing must not overwrite what the next holder wrote. commitFenced adds the epoch of the running controller, so that no write can forget it.',
      product,
      code(/\.\s*commit\(/g),
      /^src\/core\/store\//,
      /^src\/core\/lease\/current-fence\.ts$/,
    );
    check(
      'A write without an epoch needs a reason, and expectations that protect newer records of other replicas. Name the file here with its reason.',
      product,
      code(/\bcommitUnfenced\(/g),
      /^src\/core\/lease\/current-fence\.ts$/,
      // Batches of many callers. Records of the audit log are only added.
      /^src\/core\/audit\/(?:waiting-rows|log)\.ts$/,
      // Any replica gets cosignatures, keys of clusters and its own bundle, and compares before it writes.
      /^src\/core\/audit\/cosignatures\.ts$/,
      /^src\/core\/identity\/bundle\/published-bundle\.ts$/,
      /^src\/auth\/keys\/key-memory\.ts$/,
      // Leases in other clusters order these, and they compare before they write.
      /^src\/kubernetes\/(?:fencing\/epochs|leaving\/member-records)\.ts$/,
      // A record of each replica, and the memory of an agent, which has no leases.
      /^src\/trust\/agents\/replica-pulse\.ts$/,
      /^src\/core\/agent\/replica-store\.ts$/,
    );
  });

  test('one authorizer answers for the whole site', () => {
    check(
      'An authorizer compiles the policy and the rights of each caller. The API, routes, watches and reviews share one, so that all of them follow a change at the same moment.',
      product,
      code(/\bnew Authorizer\(/g),
      /^src\/server\/site-access\.ts$/,
    );
  });

  test('the address of a client is read only in server/http/source-address.ts', () => {
    check(
      'Behind a proxy, every client has the address of the connection of the proxy. Limits, grants and the audit log must agree on who called, so one file decides. Limits on connections have nothing but the connection.',
      under('src/server/'),
      code(/\bremoteAddress\b/g),
      /^src\/server\/http\/source-address\.ts$/,
      /^src\/server\/listeners\/(?:stranger-limits|connections|handshake-budget)\.ts$/,
    );
  });

  test('names are looked up only in core/identity/tls/look-up-name.ts', () => {
    check(
      'node:dns.lookup waits for threads that a dead name server holds: dial (core/identity/tls/dial.ts) instead.',
      product,
      imports((to) => !/^node:dns(?:\/promises)?$/.test(to)),
      /^src\/core\/identity\/tls\/look-up-name\.ts$/,
    );
  });

  test('time and randomness come only from core/clock', () => {
    const uses =
      /\b(?:Date\.now|Math\.random|performance\.now|process\.hrtime|randomBytes|randomUUID|randomInt|randomFillSync|getRandomValues|(?<!\.)setTimeout|(?<!\.)setInterval|performance\.timeOrigin)\b|\bnew Date\(\s*\)/g;
    const timers = imports((to) => !/^(?:node:)?timers(?:\/promises)?$/.test(to));
    check(
      'The simulation cannot replay code that reads the real clock, sets a real timer or draws real randomness: take a Clock or a Random instead. (setImmediate is free: it measures no time.)',
      product,
      (file) => [...code(uses)(file), ...timers(file)],
      /^src\/core\/clock\//,
    );
  });

  test('the real clock and real randomness are handed out by cli/process-io.ts', () => {
    check(
      'A part that imports the system clock itself cannot be given a virtual one.',
      product,
      imports((to) => to !== 'src/core/clock/system.ts'),
      /^src\/cli\/process-io\.ts$/,
      // A thread of its own, which no simulation runs.
      /^src\/core\/store\/sqlite\/worker\.ts$/,
    );
  });
});

suite('a plane has the same rooms as every other', () => {
  test('its controllers are in controllers/', () => {
    check(
      'A reader finds every controller of a plane in one folder.',
      planes.flatMap((plane) => under(`${plane}/`)),
      code(/\): Controller \{/g),
      /^src\/\w+\/controllers\/[^/]+\.ts$/,
    );
  });

  test('its commands are in commands/', () => {
    check(
      'Commands parse flags and print; what they call must be usable without them.',
      planes.flatMap((plane) => under(`${plane}/`)),
      code(/\bfunction \w+Command\(/g),
      /^src\/\w+\/commands\/[^/]+\.ts$/,
    );
  });
});

suite('files are easy to find and to read', () => {
  test('a table that is looked up by any text is a Map', () => {
    check(
      'A plain object also has constructor, toString and __proto__, which others may send: use a Map.',
      product,
      code(/^(?:export )?const \w+: [\w<]*Record<string,/gm),
    );
  });

  test('no file re-exports everything of another', () => {
    check(
      'With `export *` a reader cannot see where a name comes from, and a new name in one file breaks another.',
      product,
      code(/\bexport\s*\*/g),
    );
  });

  test('names of files are kebab-case and say what is inside', () => {
    const vague = /(?:^|-)(?:utils?|helpers?|managers?|common|misc|shared|index)(?:-|$)/;
    const nameOf = ({ path }: File): string => basename(path).replace(/(?:\.test)?\.ts$/, '');
    check(
      'A file called utils collects code that cannot be found again: name it for its main export.',
      everything,
      (file) => [
        ...isTrue((each) => vague.test(nameOf(each)), 'has a vague name')(file),
        ...isTrue(
          (each) => !/^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(nameOf(each)),
          'is not kebab-case',
        )(file),
      ],
    );
  });

  test('nothing is left to do later without saying when', () => {
    check(
      'A note to self is a riddle for others. Do it, or write down the condition under which it must be done.',
      everything,
      isTrue(({ text }) => /\b(?:T[O]DO|F[I]XME|X[X]X)\b/.test(text), 'has such a note'),
    );
  });

  test('no test holds a stopwatch', () => {
    check(
      'A machine that is busy is not a bug. What must be fast is measured in bench/.',
      everything.filter((file) => !file.path.startsWith('bench/')),
      isTrue(
        ({ text }) => /assert[^;]*(?:performance\.now|Date\.now)\(\) - \w+ </.test(text),
        'asserts how long something took',
      ),
    );
  });

  test('imports name files with their extension', () => {
    check(
      'Node runs these files as they are, and adds nothing to a specifier.',
      sources,
      imports(
        (_to, found, file) =>
          !found.specifier.startsWith('.') ||
          existsSync(join(root, dirname(file.path), found.specifier)),
      ),
    );
  });
});

suite('folders are easy to find and to read', () => {
  const paths = new Set<string>();
  for (const file of sources) {
    for (let path = dirname(file.path); path !== 'src'; path = dirname(path)) paths.add(path);
  }
  const folders = [...paths].toSorted().map((path) => {
    const readme = join(root, path, 'README.md');
    return { path, readme: existsSync(readme) ? readFileSync(readme, 'utf8') : undefined };
  });

  test('addresses of modules work in a release too', () => {
    check(
      'The compiler rewrites imports, but not import.meta.resolve: moduleAddress does.',
      under('src/'),
      code(/(?<!\bmoduleAddress\()import\.meta\.resolve\(/g),
    );
  });

  test('every folder has a README.md that says what lives there', () => {
    check(
      'A reader who opens a folder learns in one paragraph what it is for and what may not be in it.',
      folders,
      ({ path, readme }) => {
        if (readme === undefined) return [`${path} has no README.md`];
        const [heading, first = ''] = readme.split(/\n\s*\n/);
        if (heading?.trim() !== `# ${path.slice('src/'.length)}`) {
          return [`${path}/README.md does not begin with # ${path.slice('src/'.length)}`];
        }
        return /^\w.{20}/.test(first) ? [] : [`${path}/README.md has no first paragraph`];
      },
    );
  });

  test('README.md and ARCHITECTURE.md name no file and no folder that does not exist', () => {
    const exists = (path: string): boolean =>
      statSync(join(root, path), { throwIfNoEntry: false }) !== undefined;
    const named = (text: string): readonly string[] =>
      [...text.matchAll(/`([\w./-]+(?:\.ts|\/))`/g)].map(([, name = '']) => name);
    const tour = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8');
    check(
      'A name that leads nowhere costs more time than no name.',
      [
        ...folders.map(({ path, readme = '' }) => ({
          path: `${path}/README.md`,
          names: named(readme),
        })),
        // Only whole paths of files: it also speaks of files and folders that every plane has.
        { path: 'ARCHITECTURE.md', names: named(tour).filter((name) => /.\/.*\.ts$/.test(name)) },
      ],
      ({ path, names }) =>
        names
          .filter((name) => ![dirname(path), 'src', '.'].some((from) => exists(join(from, name))))
          .map((name) => `${path} names ${name}`),
    );
  });
});

function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length;
}
