import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { HansaError } from '../../core/errors/error.ts';
import type { Json } from '../object.ts';
import { patchedResource } from './patched-resource.ts';

function failure(patched: Json): HansaError {
  try {
    patchedResource(patched);
  } catch (error) {
    assert.ok(error instanceof HansaError);
    return error;
  }
  throw new assert.AssertionError({ message: 'nothing was thrown' });
}

describe('the result of a patch', () => {
  it('is a resource when it has a kind', () => {
    const resource = { apiVersion: 'hansa.dev/v1alpha1', kind: 'Site', metadata: {} };
    assert.equal(patchedResource(resource), resource);
  });

  it('is refused when it is no object, in the words of kube-apiserver', () => {
    const error = failure([1]);
    assert.equal(error.code, 'HANSA_INVALID');
    assert.equal(
      error.message,
      ' "" is invalid: patch: Invalid value: "[1]": couldn\'t get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }',
    );
    assert.equal(error.details?.causes?.[0]?.field, 'patch');
  });

  it('is refused when its type is no text', () => {
    assert.match(
      failure({ kind: 3 }).message,
      /number into Go struct field \.kind of type string$/,
    );
  });

  it('is refused without a kind, and shown', () => {
    for (const kind of [{}, { kind: '' }, { kind: null }]) {
      assert.match(failure({ b: 1, ...kind }).message, /Object 'Kind' is missing in '\{"b":1/);
    }
  });
});
