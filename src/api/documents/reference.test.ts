import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allKinds } from '../../test-planes.ts';
import { roleBindingKind } from '../kinds/role-binding.ts';
import { siteKind } from '../kinds/site.ts';
import { referencePage } from './reference.ts';

test('the page of a kind tells its names, fields, limits and rules', () => {
  const page = referencePage(roleBindingKind);
  assert.match(page, /^# RoleBinding\n/);
  assert.match(page, /\| names \| `rolebindings`, `rolebinding`, `rb` \|/);
  assert.match(
    page,
    /\| `role` \| string \| required; at least 1 characters; at most 253 characters \|/,
  );
  assert.match(
    page,
    /\| `subjects\[\]\.kind` \| string \| required; one of `User`, `Group`, `Token` \|/,
  );
  assert.match(page, /\| `subjects` \| list of object \| required; one item per kind and name/);
  assert.match(page, /Rule: role cannot be changed/);
  assert.match(page, /\| field selectors \| `metadata\.name`, `spec\.role` \|/);
  assert.match(referencePage(siteKind), /\| object names \| only `site` \|/);
});

test('no cell of a table breaks its row', () => {
  for (const kind of allKinds) {
    for (const line of referencePage(kind).split('\n')) {
      if (!line.startsWith('| `')) continue;
      assert.equal(line.replaceAll('\\|', '').split('|').length, 6, line);
    }
  }
});
