// Automations and their runs through the npm client `resend`, as a program that already uses it
// would see us. Started by ../run, which sets RESEND_BASE_URL and RESEND_API_KEY.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Resend } from 'resend';
import { ok, refused, TIME, UUID } from './answers.js';

const resend = new Resend(process.env.RESEND_API_KEY);

const trigger = { key: 'start', type: 'trigger', config: { eventName: 'user.created' } };
const delay = (key) => ({ key, type: 'delay', config: { duration: '1 hour' } });

async function create(options = {}) {
  const given = { name: 'Welcome', steps: [trigger], connections: [], ...options };
  const data = ok(await resend.automations.create(given));
  assert.deepEqual(Object.keys(data).sort(), ['id', 'object']);
  assert.equal(data.object, 'automation');
  assert.match(data.id, UUID);
  return data.id;
}

test('a trigger alone is an automation, and disabled', async () => {
  const id = await create();
  const automation = ok(await resend.automations.get(id));
  assert.equal(automation.object, 'automation');
  assert.equal(automation.id, id);
  assert.equal(automation.name, 'Welcome');
  assert.equal(automation.status, 'disabled');
  assert.match(automation.created_at, TIME);
  assert.match(automation.updated_at, TIME);
  assert.deepEqual(automation.steps, [{ key: 'start', type: 'trigger', config: { event_name: 'user.created' } }]);
  assert.deepEqual(automation.connections, []);
});

test('every kind of step that the client knows is taken and read back', async () => {
  const rule = { type: 'rule', field: 'event.plan', operator: 'eq', value: 'pro' };
  const segment = randomUUID();
  const { id: template } = ok(await resend.templates.create({ name: 'Welcome', html: '<p>Hello</p>' }).publish());
  const steps = [
    trigger,
    { key: 'which', type: 'condition', config: { type: 'and', rules: [rule] } },
    { key: 'paid', type: 'wait_for_event', config: { eventName: 'order.paid', timeout: '3 days', filterRule: rule } },
    {
      key: 'mail',
      type: 'send_email',
      config: {
        template: { id: template, variables: { NAME: { var: 'contact.first_name' }, COUNT: 3 } },
        from: 'us@example.com',
        subject: 'Hello',
        replyTo: 'reply@example.com',
      },
    },
    { key: 'note', type: 'contact_update', config: { firstName: null, properties: { plan: { var: 'event.plan' } } } },
    { key: 'sort', type: 'add_to_segment', config: { segmentId: segment } },
    delay('pause'),
    { key: 'forget', type: 'contact_delete', config: {} },
  ];
  const connections = [
    { from: 'start', to: 'which' },
    { from: 'which', to: 'paid', type: 'condition_met' },
    { from: 'which', to: 'pause', type: 'condition_not_met' },
    { from: 'paid', to: 'mail', type: 'event_received' },
    { from: 'paid', to: 'pause', type: 'timeout' },
    { from: 'mail', to: 'note', type: 'default' },
    { from: 'note', to: 'sort' },
    { from: 'pause', to: 'forget' },
  ];
  const id = await create({ name: 'Everything', status: 'enabled', steps, connections });
  const automation = ok(await resend.automations.get(id));
  assert.equal(automation.status, 'enabled');
  assert.deepEqual(automation.connections, connections.map((one) => ({ ...one, type: one.type ?? 'default' })));
  const configs = Object.fromEntries(automation.steps.map((step) => [step.key, step.config]));
  assert.deepEqual(automation.steps.map((step) => step.type), steps.map((step) => step.type));
  assert.deepEqual(configs.paid, { event_name: 'order.paid', timeout: '3 days', filter_rule: rule });
  assert.equal(configs.mail.reply_to, 'reply@example.com');
  assert.deepEqual(configs.mail.template.variables.NAME, { var: 'contact.first_name' });
  assert.deepEqual(configs.note, { first_name: null, properties: { plan: { var: 'event.plan' } } });
  assert.deepEqual(configs.sort, { segment_id: segment });
  ok(await resend.automations.stop(id));
});

test('a step that carries its mail is read like one with a template', async () => {
  const mail = { from: 'us@example.com', subject: 'Hello', html: '<p>Hi</p>' };
  const body = {
    name: 'Mail',
    steps: [{ ...trigger, config: { event_name: 'user.created' } }, { key: 'mail', type: 'send_email', config: mail }],
    connections: [{ from: 'start', to: 'mail' }],
  };
  // The client itself leaves out what it does not know.
  const made = await fetch(`${process.env.RESEND_BASE_URL}/automations`, {
    method: 'POST',
    headers: { authorization: `Bearer ${process.env.RESEND_API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  assert.equal(made.status, 201);
  const automation = ok(await resend.automations.get((await made.json()).id));
  assert.deepEqual(automation.steps[1].config, { template: { id: '' }, ...mail });
});

test('a name and a status are changed alone', async () => {
  const id = await create();
  assert.deepEqual(ok(await resend.automations.update(id, { name: 'Other' })), { object: 'automation', id });
  assert.deepEqual(ok(await resend.automations.update(id, { status: 'enabled' })), { object: 'automation', id });
  const automation = ok(await resend.automations.get(id));
  assert.equal(automation.name, 'Other');
  assert.equal(automation.status, 'enabled');
});

test('a new graph replaces the old one, also while it is enabled', async () => {
  const id = await create({ status: 'enabled' });
  const connections = [{ from: 'start', to: 'pause' }];
  ok(await resend.automations.update(id, { steps: [trigger, delay('pause')], connections }));
  const automation = ok(await resend.automations.get(id));
  assert.equal(automation.status, 'enabled');
  assert.deepEqual(automation.steps.map((step) => step.key), ['start', 'pause']);
  assert.deepEqual(automation.connections, [{ from: 'start', to: 'pause', type: 'default' }]);
});

test('half a graph and an empty change are refused', async () => {
  const id = await create();
  const half = await resend.automations.update(id, { steps: [trigger] });
  assert.match(refused(half, 422, 'validation_error'), /connections/);
  refused(await resend.automations.update(id, {}), 422, 'missing_required_field');
});

test('a copy is made of it, disabled', async () => {
  const id = await create({ name: 'First', status: 'enabled' });
  const copy = ok(await resend.automations.duplicate(id));
  assert.equal(copy.object, 'automation');
  assert.notEqual(copy.id, id);
  const [one, other] = [ok(await resend.automations.get(id)), ok(await resend.automations.get(copy.id))];
  assert.equal(other.name, 'First (copy)');
  assert.equal(other.status, 'disabled');
  assert.deepEqual(other.steps, one.steps);
});

test('stopping disables', async () => {
  const id = await create({ status: 'enabled' });
  assert.deepEqual(ok(await resend.automations.stop(id)), { object: 'automation', id, status: 'disabled' });
  assert.equal(ok(await resend.automations.get(id)).status, 'disabled');
});

test('deleting says so, and then the automation is gone', async () => {
  const id = await create();
  assert.deepEqual(ok(await resend.automations.remove(id)), { object: 'automation', id, deleted: true });
  refused(await resend.automations.get(id), 404, 'not_found');
  refused(await resend.automations.update(id, { name: 'x' }), 404, 'not_found');
  refused(await resend.automations.stop(id), 404, 'not_found');
  refused(await resend.automations.duplicate(id), 404, 'not_found');
  refused(await resend.automations.remove(id), 404, 'not_found');
  refused(await resend.automations.runs.list({ automationId: id }), 404, 'not_found');
});

test('the list is paged and can be narrowed by status', async () => {
  const made = [];
  for (const status of ['enabled', 'disabled', 'enabled', 'disabled']) made.unshift(await create({ status }));
  const page = ok(await resend.automations.list({ limit: 4 }));
  assert.equal(page.object, 'list');
  assert.deepEqual(page.data.map((item) => item.id), made);
  for (const item of page.data) {
    assert.deepEqual(Object.keys(item).sort(), ['created_at', 'id', 'name', 'status', 'updated_at']);
  }
  const next = ok(await resend.automations.list({ limit: 2, after: made[1] }));
  assert.deepEqual(next.data.map((item) => item.id), made.slice(2));
  const enabled = ok(await resend.automations.list({ status: 'enabled', limit: 2 }));
  assert.deepEqual(enabled.data.map((item) => item.id), [made[1], made[3]]);
  refused(await resend.automations.list({ status: 'paused' }), 422, 'invalid_parameter');
});

for (const [what, steps, connections, word] of [
  ['no trigger', [delay('a')], [], /trigger/],
  ['two triggers', [trigger, { ...trigger, key: 'again' }], [], /second trigger/],
  ['a step that nothing leads to', [trigger, delay('lost')], [], /lost/],
  ['a circle', [trigger, delay('a'), delay('b')], [['start', 'a'], ['a', 'b'], ['b', 'a']], /circles/],
  ['a key twice', [trigger, delay('a'), delay('a')], [['start', 'a']], /`a`/],
  ['a way out that a step does not have', [trigger, delay('a')], [['start', 'a', 'timeout']], /timeout/],
  ['a delay that is too long', [trigger, { ...delay('a'), config: { duration: '31 days' } }], [['start', 'a']], /30 days/],
  ['151 steps', [trigger, ...Array.from({ length: 150 }, (_, at) => delay(`d${at}`))], [], /151/],
]) {
  test(`a graph with ${what} is refused with the reason`, async () => {
    const links = connections.map(([from, to, type]) => ({ from, to, type }));
    const answer = await resend.automations.create({ name: 'Bad', steps, connections: links });
    assert.match(refused(answer, 422, 'validation_error'), word);
  });
}

test('an automation without runs lists none, whatever status is asked for', async () => {
  const automationId = await create();
  for (const status of [undefined, 'running', ['running', 'completed', 'failed', 'cancelled']]) {
    const list = ok(await resend.automations.runs.list({ automationId, status, limit: 5 }));
    assert.deepEqual(list, { object: 'list', has_more: false, data: [] });
  }
  refused(await resend.automations.runs.list({ automationId, status: 'waiting' }), 422, 'invalid_parameter');
  refused(await resend.automations.runs.get({ automationId, runId: randomUUID() }), 404, 'not_found');
  refused(await resend.automations.runs.get({ automationId, runId: 'x' }), 422, 'invalid_parameter');
});

test('what is not an id is refused, and what nobody has is not found', async () => {
  refused(await resend.automations.get('x'), 422, 'invalid_parameter');
  refused(await resend.automations.get(randomUUID()), 404, 'not_found');
});
