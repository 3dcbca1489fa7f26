import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { scan } from './source-scan.ts';

const specifiers = (text: string): string[] => scan(text).imports.map((found) => found.specifier);

suite('reading imports', () => {
  test('finds every form of import and export', () => {
    const text = [
      "import 'node:a';",
      "import b from './b.ts';",
      "import type { C } from './c.ts';",
      "import {\n  d,\n  type D,\n} from './d.ts';",
      "export { e } from './e.ts';",
      "export * from './f.ts';",
      "const g = await import('./g.ts');",
      "import * as h from './h.ts';",
    ].join('\n');
    assert.deepEqual(specifiers(text), [
      'node:a',
      './b.ts',
      './c.ts',
      './d.ts',
      './e.ts',
      './f.ts',
      './g.ts',
      './h.ts',
    ]);
  });

  test('knows which imports are of types only, and their lines', () => {
    const { imports } = scan("import type { A } from 'a';\nimport { type B } from 'b';");
    assert.deepEqual(imports, [
      { specifier: 'a', typeOnly: true, line: 1 },
      { specifier: 'b', typeOnly: false, line: 2 },
    ]);
  });

  test('knows which imports are loaded only when the code runs', () => {
    const { imports } = scan(
      "const a = await import('a');\nimport { b } from 'b';\nconst c = import.meta.resolve('c');",
    );
    assert.deepEqual(
      imports.map(({ specifier, lazy }) => [specifier, lazy]),
      [
        ['a', true],
        ['b', undefined],
        ['c', true],
      ],
    );
  });

  test('takes no import from comments, strings, templates and expressions', () => {
    const text = [
      "// import 'a';",
      "/* import 'b'; */",
      'const c = "import \'c\'";',
      "const d = `import 'd'; ${'e'} import 'f'`;",
      "const g = /import 'g'/.test('');",
    ].join('\n');
    assert.deepEqual(specifiers(text), []);
  });
});

suite('blanking what is not code', () => {
  test('keeps code around strings, templates and comments', () => {
    const { code } = scan("a('Date.now()'); // Date.now()\nb(`${c(`x`)} Date.now()`); Date.now();");
    assert.equal(code.match(/Date\.now/g)?.length, 1);
    assert.match(code, /c\(` `\)/);
  });

  test('tells division from a regular expression', () => {
    const { code } = scan("const a = b / c; const d = /['\"`]/; const e = 'f';");
    assert.match(code, /b \/ c/);
    assert.match(code, /const e = ' '/);
  });

  test('keeps offsets and lines', () => {
    const text = "const a = 'é😀';\n/* two\nlines */ b();";
    assert.equal(scan(text).code.split('\n').length, 3);
  });
});
