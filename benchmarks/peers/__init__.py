"""The same small task with ddops' primitives, pyinfra and Ansible, against one lab host."""
