// Tests the launcher `./hansa`: how it finds the program and Node, and how it passes arguments.

import assert from 'node:assert/strict';
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { execute, hansa, launcher, repository, temporaryFolder } from './daemon.ts';

const { version } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8')) as {
  version: string;
};

suite('the launcher', () => {
  test('works from any folder and through symbolic links, relative ones too', async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'bin'));
    symlinkSync(launcher, join(folder, 'real'));
    symlinkSync('../real', join(folder, 'bin', 'hansa'));
    const { code, stdout } = await execute('./bin/hansa', ['--version'], { cwd: folder });
    assert.equal(code, 0);
    assert.equal(stdout, `${version}\n`);
  });

  test('is found on the PATH', async () => {
    const env = { PATH: `${repository}:${process.env['PATH']}` };
    const { stdout } = await execute('sh', ['-c', 'cd / && hansa --version'], { env });
    assert.equal(stdout, `${version}\n`);
  });

  test('passes arguments on as they are', async () => {
    const { stderr } = await hansa(['get', "a b'c", '*']);
    assert.match(stderr, /There is no kind "a b'c"/);
  });

  test('bounds the memory that a busy process keeps for good', async () => {
    const show = 'console.error(...process.execArgv,process.env.MALLOC_ARENA_MAX)';
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${show}` };
    const { stderr } = await execute(launcher, ['--version'], { env });
    assert.match(stderr, /--max-semi-space-size=8 --expose-gc 2$/m);
  });

  test('says to run make setup, and ends with 69, where there is no suitable Node', async () => {
    const folder = temporaryFolder();
    cpSync(launcher, join(folder, 'hansa'));
    writeFileSync(join(folder, 'node'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
    const env = { PATH: `${folder}:/usr/bin:/bin` };
    const { code, stdout, stderr } = await execute(join(folder, 'hansa'), ['get'], { env });
    assert.equal(code, 69);
    assert.equal(stdout, '');
    assert.match(stderr, /Node of at least 24\.15 .* Run: make -C '.*' setup/);
  });

  test('prints help without a warning on standard error', async () => {
    const { code, stdout, stderr } = await hansa(['--help']);
    assert.equal(code, 0);
    assert.match(stdout, /^Usage: hansa/);
    assert.equal(stderr, '');
  });
});

suite('standard output', () => {
  test('that is closed early ends a command without a word', async () => {
    const script = `{ '${launcher}' server --help; echo $? >&2; } | true`;
    const { stderr } = await execute('sh', ['-c', script]);
    assert.equal(stderr, '141\n');
  });

  test('on a full disk is an error, not a stack trace', async () => {
    const { code, stderr } = await execute('sh', ['-c', `'${launcher}' --version > /dev/full`]);
    assert.equal(code, 1);
    assert.match(stderr, /^Cannot write to standard output: the disk is full\. {3}\(HANSA_/);
  });
});

suite('the repository', () => {
  test('has reference pages that are up to date (make docs writes them)', async () => {
    const folder = temporaryFolder();
    const generated = await hansa(['docs', 'generate', join(folder, 'reference')]);
    assert.equal(generated.code, 0, generated.stderr);
    const args = ['-r', 'docs/reference', join(folder, 'reference')];
    const { code, stdout } = await execute('diff', args);
    assert.equal(code, 0, stdout);
  });

  test('has completion scripts that the shell can read', async () => {
    const { stdout } = await hansa(['completion', 'bash']);
    const script = join(temporaryFolder(), 'hansa.bash');
    writeFileSync(script, stdout);
    const press = `. ${script}; COMP_WORDS=(hansa ge); COMP_CWORD=1; _hansa; echo "\${COMPREPLY[@]}"`;
    const completed = await execute('bash', ['-c', press], { cwd: '/' });
    assert.equal(completed.stdout.trim(), 'get', completed.stderr);
  });

  test('has a set-up that does nothing the second time', async () => {
    const { code, stdout } = await execute('make', ['--no-print-directory', 'setup']);
    assert.equal(code, 0);
    assert.doesNotMatch(stdout, /npm|apt|building/);
  });

  test('has an example of a configuration that is sound', async () => {
    const { code, stderr } = await hansa(['config', 'check', '--config', 'examples/config.yaml']);
    assert.equal(code, 0, stderr);
  });

  test('lists its targets with make help', async () => {
    const { stdout } = await execute('make', ['--no-print-directory', 'help']);
    for (const target of ['setup', 'demo', 'test', 'simulate', 'bench', 'lint', 'build']) {
      assert.match(stdout, new RegExp(`^make ${target} +\\S`, 'm'));
    }
  });

  test('compiles to a release that runs without type stripping', async () => {
    // Below the repository, where Node finds the packages.
    const folder = join(repository, 'node_modules', '.cache', `build-${process.pid}`);
    try {
      // Types were checked before the tests.
      const args = ['-p', 'tsconfig.build.json', '--noCheck', '--outDir', folder];
      const built = await execute(join(repository, 'node_modules', '.bin', 'tsc'), args);
      assert.equal(built.code, 0, built.stdout);
      const main = join(folder, 'src', 'main.js');
      const run = (...words: string[]): ReturnType<typeof execute> =>
        execute(process.execPath, ['--no-strip-types', main, ...words]);
      assert.equal((await run('--version')).stdout, `${version}\n`);
      // Starts a whole site, worker threads included.
      const documented = await run('docs', 'generate', join(folder, 'reference'));
      assert.equal(documented.code, 0, documented.stderr);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
